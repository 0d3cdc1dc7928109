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
  std::string space;                   // the namespaces around it: "yotta::detail"
  std::string owner;                   // the classes around it: "Ddp::NoSync"
  std::string name;                    // as it stands there: "finish", "GradientBuckets::finish"
  std::string parameters_of_template;  // "template <class T>", or empty
  std::string signature;               // with single blanks: "constexpr int half(int n)"
  bool returns_value = false;
  // Places in the text: where the declaration begins, and behind template <...>; its name; the
  // brackets of its parameters, and behind them; the colon of a constructor, or else the body; the
  // brace that opens the body, and the one that closes it.
  size_t begin = 0, head = 0, called = 0, parameters = 0, behind = 0, values = 0, open = 0,
         close = 0;

  std::string path() const;  // "yotta::GradientBuckets::finish"
};

struct PageClass {
  std::string space, path;     // "yotta::detail"; "Ddp::NoSync"
  size_t open = 0, close = 0;  // its braces
};

// In the order of the text; a class behind what stands in it.
struct Page {
  std::vector<PageFunction> functions;
  std::vector<PageClass> classes;
};
Page page_of(const std::string& text);
std::vector<PageFunction> functions_of(const std::string& text);

// The function that is meant by "finish", "GradientBuckets::finish", or, if several have the name,
// by a part of its signature: "half(double". Throws std::runtime_error that names what there is, if
// it is none or not one.
PageFunction find_function(const std::vector<PageFunction>& functions, const std::string& name);

}  // namespace runner
