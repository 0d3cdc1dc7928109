// What AddressSanitizer reports of a student's program, in plain words and with lines of the
// student's file:
//
//     ERROR: AddressSanitizer: heap-use-after-free ...        line 52 (in 10.1) reads 4 bytes of
//                                                             memory that was freed:
//     READ of size 4 at 0x602000000010 thread T0                sum += part[0];
//         #0 0x55d0c8 (/RUN/program+0x2a1c)          ──►      freed in line 50:
//     freed by thread T0 here:                                  part = {};
//         #0 0x7f01 (/lib/libasan.so.8+0xb9d1)
//         #1 0x55d0c8 (/RUN/program+0x29f2)
#pragma once

#include <string>
#include <vector>

namespace runner {

// The parts of a report that matter here. A stack is the addresses in the program of its places,
// the innermost first; "" stands for a place in another library.
struct MemoryReport {
  using Stack = std::vector<std::string>;
  std::string kind;    // "heap-use-after-free"
  std::string access;  // "reads", "writes" or empty
  long bytes = 0;      // that it reads or writes
  std::string beside;  // "right behind a block of 40 bytes"; empty: not known
  Stack here, freed, allocated;
};
MemoryReport memory_report(const std::string& output);  // no kind: there is no report

// Of what an instrumented program has printed. Empty: there is no report in it. addr2line finds the
// lines.
std::string memory_error(const std::string& output, const std::string& program);
// What the program itself has printed before.
std::string without_report(const std::string& output);

}  // namespace runner
