// An error that ends several processes of a job on this machine, before they have found each other,
// is printed by one of them.
//
//     rank 2   say_once("job 7", "no GPU")   the first: prints it, and waits a moment for the rest
//     rank 0   say_once("job 7", "no GPU")   tells rank 2 that it has come, and prints nothing
//     rank 1   say_once("job 7", "no key")   prints it: another reason
//
// They meet at a socket in the kernel that has no file (unix(7), "abstract"), named by the user,
// the job and the words; so nothing is left behind.
#pragma once

#include <functional>
#include <string>

namespace yotta {

// `others`: how many processes may say the same; the first leaves when all of them have come, or
// after `seconds`. Returns whether this process is the first, and has called print().
bool say_once(const std::string& job, const std::string& text, int others,
              const std::function<void()>& print, double seconds = 2);

}  // namespace yotta
