// For authors: `./yotta exercise new 32_my_topic` makes a whole exercise, which can be built and
// graded at once.
//
//     in docs/example/                         below the root
//     header, compiled unit, test of gossip    the same files of my_topic
//     exercise, lesson, notebook 32_gossip     32_my_topic
//
// The example is built and proven by the suite, so what is copied from it works. The lesson and the
// notebook come with it, because the suite wants them beside an exercise. docs/adding_a_topic.md
// goes through the parts.
#pragma once

#include <string>
#include <vector>

namespace runner {

// Writes the files of exercise `id`, "32_my_topic", below `root`. Returns their paths from there,
// sorted. Throws std::runtime_error, and writes nothing, if the id is none, its number is taken, or
// one of the files is there already.
std::vector<std::string> new_exercise(const std::string& root, const std::string& id);

// The verb: makes it, and says what to do next. `json`: a file that gets its files' names too.
int make_exercise(const std::string& id, const std::string& json);

// The tasks' functions, as the pages declare them, go into the README of an exercise, or of all of
// them. Returns the exit status.
int write_signatures(const std::string& name);

}  // namespace runner
