// The filter of system calls under which a student's program runs: it starts no processes, signals
// no others, opens no sockets and changes nothing of the system. A call that is refused fails with
// EPERM; the program goes on.
//
// Not the whole list of what Linux can do: what only a process without namespaces of its own could
// do harm with.
#pragma once

#include <linux/filter.h>

#include <vector>

namespace runner {

// `alone`: the program has namespaces of its own, so signals reach only itself and files that it
// can write are its own. Else the filter is for the process that asks for it: it alone can be
// signalled, and no file be written.
std::vector<sock_filter> filter_of_calls(bool alone);

// From here on this process and what takes its place obey the filter. False: the system has none.
bool obey(std::vector<sock_filter> filter);

}  // namespace runner
