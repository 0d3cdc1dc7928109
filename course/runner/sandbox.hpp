// The sandbox: a student's program runs where it can do no harm, is watched, and is killed whole.
//
//                    bubblewrap                           seccomp                    limits
//     files          it sees the system's libraries and   as the user sees them, and  as the user's
//                    its own folder, and writes to a      it can write none
//                    /tmp of its own
//     network        none                                 no sockets                 the user's
//     processes      none but its own, and starts none    it starts none, and        its session is
//                                                         signals none               killed
//     in all three   time, memory, threads, output, open files, no descriptor of ours, no variable
//                    of the environment but a few
//
// The first one that works here is taken, and the verdict names it. bubblewrap is the program
// bwrap, with the filter of system calls that seccomp is, too. Where a container forbids namespaces
// it does not work.
//
// What it does not stop: what the program does to itself, in its own memory. With `limits` it stops
// no program that leaves its session or signals us: there vetting (course/runner/vet.hpp) is the
// wall.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/process.hpp"

namespace runner {

enum class Wall { bubblewrap, seccomp, limits };
const char* name(Wall wall);

struct Limits {
  double seconds = 5;
  int64_t memory = int64_t{2} << 30;  // bytes
  int64_t output = 1 << 20;           // bytes
  int64_t record = 4 << 20;           // bytes
  int files = 64;
  int64_t threads = 1000;
  bool instrumented = false;  // for AddressSanitizer, which needs memory and addresses of its own
};

struct Sandboxed {
  Ending ending;
  std::string record;  // what the program has said by its channel
};

// Runs a program with the words CHANNEL WORDS..., where CHANNEL is the number of a descriptor on
// which `key` waits, and what the program writes there becomes its record. `limits` also hold for
// all that it starts.
Sandboxed run_sandboxed(const std::string& program, const std::vector<std::string>& words,
                        const std::string& key, const Limits& limits, Wall wall);

}  // namespace runner
