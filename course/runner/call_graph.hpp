// Who calls whom in compiled archives, read from the relocations of their objects: a call, an
// address that is taken, an entry of a virtual table. What the compiler has put into its caller has
// no call any more.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace runner {

// The symbols whose code leads to a symbol that is `wanted`, those themselves included.
std::set<std::string> symbols_leading_to(const std::vector<std::string>& archives,
                                         const std::function<bool(const std::string&)>& wanted);

}  // namespace runner
