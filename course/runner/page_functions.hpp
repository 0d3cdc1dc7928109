// The functions that a page of the library defines, wherever they stand: in a namespace, in their
// class, or behind it with the class's name before theirs.
//
//     class GradientBuckets {
//       void finish() { ... }                      GradientBuckets::finish
//     };
//     void GradientBuckets::finish() { ... }       GradientBuckets::finish
//     namespace detail { int half(int n) { ... } }         detail::half
#pragma once

#include <string>
#include <vector>

namespace runner {

struct PageFunction {
  std::string path;       // with namespaces and classes: "yotta::detail::half"
  std::string signature;  // with single blanks: "constexpr int half(int n)"
  bool returns_value = false;
  // Places in the text: where the declaration begins, the brace that opens the body, and the one
  // that closes it.
  size_t begin = 0, open = 0, close = 0;
};

// In the order of the text.
std::vector<PageFunction> functions_of(const std::string& text);

// The function that is meant by "finish", "GradientBuckets::finish", or, if several have the name,
// by a part of its signature: "half(double". Throws std::runtime_error that names what there is, if
// it is none or not one.
PageFunction find_function(const std::vector<PageFunction>& functions, const std::string& name);

}  // namespace runner
