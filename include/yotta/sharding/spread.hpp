// Spread: how a tensor is cut over a mesh, as a type and as a text.
//
//     mesh {X 2, Y 2}        A[I_X, J_Y]           A[I_XY, J]            A[I, J]{U_X}
//
//     rank = x + 2 y         J0   J1               rows of I             every rank holds all of I
//                       I0 │ r0 │ r2 │        I0 │ r0  (x 0, y 0)        and J, but only a part of
//                       I1 │ r1 │ r3 │        I1 │ r2  (x 0, y 1)        every sum: A is the sum of
//                                             I2 │ r1  (x 1, y 0)        what x 0 and x 1 hold
//                                             I3 │ r3  (x 1, y 1)
//
// The axes after a dim's underscore cut it, in their order: I_XY cuts I over X, and each part over
// Y. So I_XY and I_YX give the same rows to different ranks. An axis that stands nowhere holds
// copies. {U_X} is "unreduced over X": the tensor is the sum over X of what its ranks hold.
//
// Contract: an axis stands at most once in a spread. [I_X, J_X] would keep only the blocks on the
// diagonal: a rank has one x, so it can hold the block (x, x) and no other.
// Letters: X, Y, Z axes of the mesh; I, J, K dims. A dim has a name of one letter or more (In[B,
// D], W_in[D, F] are read as well), an axis has exactly one capital letter.
// Reference: Austin et al. (2025), How to scale your model, "Sharded matrices"; JAX writes
// P(('X', 'Y'), None) for [I_XY, J].
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

struct MeshAxis {
  char name;
  int size;

  bool operator==(const MeshAxis&) const = default;
};

// Axes with names; the first counts fastest in a rank's number, as in mesh.hpp.
struct NamedMesh {
  std::vector<MeshAxis> axes;

  bool operator==(const NamedMesh&) const = default;
};

inline int ranks_of(const NamedMesh& mesh) {
  int product = 1;
  for (const MeshAxis& axis : mesh.axes) product *= axis.size;
  return product;
}

// "{X 4, Y 8, Z 2}" and "[I_XY, J]{U_Z}": what the two above read.
inline std::string str(const NamedMesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name, axis.size);
  return "{" + text + "}";
}

// A dim and the axes that cut it, the outermost cut first.
struct SpreadDim {
  std::string name;
  std::string axes;

  bool operator==(const SpreadDim&) const = default;
};

struct Spread {
  std::vector<SpreadDim> dims;
  std::string unreduced;  // axes, in the order of the alphabet

  bool operator==(const Spread&) const = default;
};
inline std::string str(const Spread& spread) {
  std::string text;
  for (const SpreadDim& dim : spread.dims)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", dim.name, dim.axes.empty() ? "" : "_",
                        dim.axes);
  return "[" + text + "]" + (spread.unreduced.empty() ? "" : "{U_" + spread.unreduced + "}");
}
inline int axis_size(const NamedMesh& mesh, char axis, Where where = Where::current()) {
  for (const MeshAxis& each : mesh.axes)
    if (each.name == axis) return each.size;
  fail(where, "the mesh {} has no axis {}", str(mesh), axis);
}

// The rank's place along the axis.
inline int coordinate(const NamedMesh& mesh, int rank, char axis, Where where = Where::current()) {
  int stride = 1;
  for (const MeshAxis& each : mesh.axes) {
    if (each.name == axis) return rank / stride % each.size;
    stride *= each.size;
  }
  fail(where, "the mesh {} has no axis {}", str(mesh), axis);
}

// The product of these axes' sizes; 1 for none.
inline int axes_size(const NamedMesh& mesh, std::string_view axes, Where where = Where::current()) {
  int product = 1;
  for (const char axis : axes) product *= axis_size(mesh, axis, where);
  return product;
}

// Numbers begin to end - 1 of a dim; and a part of a tensor: a range of each dim.
struct IndexRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};
using Box = std::vector<IndexRange>;

namespace detail {

// Reads a text from left to right. Spaces count for nothing.
class SpreadReader {
 public:
  SpreadReader(std::string_view text, Where where) : text_(text), where_(where) {}

  bool ended() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ == text_.size();
  }
  char next() { return ended() ? '\0' : text_[at_]; }
  bool take(char wanted) {
    if (next() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted))
      fail(where_, "'{}': expected '{}' at place {}{}", text_, wanted, at_ + 1,
           ended() ? ", where the text ends" : "");
  }
  template <class Test>
  std::string word(Test belongs, const char* what) {
    next();
    const size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    if (at_ == begin) fail(where_, "'{}': expected {} at place {}", text_, what, at_ + 1);
    return std::string(text_.substr(begin, at_ - begin));
  }

 private:
  std::string_view text_;
  Where where_;
  size_t at_ = 0;
};
inline bool is_axis(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
inline bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace detail

// "X 4, Y 8, Z 2", with or without braces. Errors: two axes of one name, a size below 1.
inline NamedMesh parse_mesh(std::string_view text, Where where = Where::current()) {
  detail::SpreadReader reader(text, where);
  NamedMesh mesh;
  const bool braces = reader.take('{');
  do {
    const std::string name = reader.word(detail::is_axis, "an axis, a capital letter");
    const std::string digits = reader.word(detail::is_digit, "the size of the axis");
    int size = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (name.size() != 1) fail(where, "axis {}: an axis is one capital letter", name);
    if (size < 1) fail(where, "axis {} has {} ranks; every axis has at least one", name, digits);
    for (const MeshAxis& each : mesh.axes)
      if (each.name == name[0]) fail(where, "the mesh '{}' has axis {} twice", text, name);
    mesh.axes.push_back({name[0], size});
  } while (reader.take(','));
  if (braces) reader.expect('}');
  if (!reader.ended()) fail(where, "'{}': a mesh is written as {{X 4, Y 2}}", text);
  return mesh;
}

namespace detail {

inline bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

}  // namespace detail

// Throws unless every axis is the mesh's and stands at most once.
inline void expect_spread(const Spread& spread, const NamedMesh& mesh,
                          Where where = Where::current()) {
  std::vector<std::pair<char, std::string>> used;  // an axis, and what it does
  const auto use = [&](char axis, const std::string& what) {
    axis_size(mesh, axis, where);
    for (const auto& [other, before] : used)
      if (other == axis)
        fail(where,
             "{}: axis {} {} and {}. A rank has one place along {}, so it would hold only parts "
             "with the same number in both: the other parts would be held by no rank",
             str(spread), axis, before, what, axis);
    used.emplace_back(axis, what);
  };
  for (const SpreadDim& dim : spread.dims)
    for (const char axis : dim.axes) use(axis, "cuts " + dim.name);
  for (const char axis : spread.unreduced) use(axis, "is unreduced");
}

// "[I_XY, J]{U_Z}"; a name in front, as in "A[I_X, J]", is passed over. Errors: what cannot be
// read; an axis that the mesh lacks; an axis that stands twice, with the reason.
inline Spread parse_spread(std::string_view text, const NamedMesh& mesh,
                           Where where = Where::current()) {
  const size_t bracket = text.find('[');
  detail::SpreadReader reader(bracket == text.npos ? text : text.substr(bracket), where);
  Spread spread;
  reader.expect('[');
  do {
    spread.dims.push_back({reader.word(detail::is_letter, "the name of a dim"), ""});
    if (reader.take('_')) spread.dims.back().axes = reader.word(detail::is_axis, "axes");
  } while (reader.take(','));
  reader.expect(']');
  if (reader.take('{')) {
    reader.expect('U'), reader.expect('_');
    spread.unreduced = reader.word(detail::is_axis, "axes");
    std::sort(spread.unreduced.begin(), spread.unreduced.end());
    reader.expect('}');
  }
  if (!reader.ended()) fail(where, "'{}': a spread is written as [I_X, J]{{U_Y}}", text);
  expect_spread(spread, mesh, where);
  return spread;
}

// Throws if it is unreduced.
inline void expect_summed(const Spread& spread, Where where = Where::current()) {
  if (!spread.unreduced.empty())
    fail(where, "{} cannot be multiplied: sum it first, with reduced() or scattered()",
         str(spread));
}

// All axes that cut a dim: "XY" of [I_X, J_Y].
inline std::string cutting_axes(const Spread& spread) {
  std::string axes;
  for (const SpreadDim& dim : spread.dims) axes += dim.axes;
  return axes;
}

// The axes that stand in `axes` and not in `taken`, in the order of `axes`.
inline std::string without(const std::string& axes, const std::string& taken) {
  std::string left;
  for (const char axis : axes)
    if (taken.find(axis) == taken.npos) left += axis;
  return left;
}

// The axes that stand in both, in the order of `axes`.
inline std::string common(const std::string& axes, const std::string& others) {
  return without(axes, without(axes, others));
}

// The ranks that hold the same numbers: the sizes of the axes that stand nowhere, multiplied.
inline int copies_of(const Spread& spread, const NamedMesh& mesh) {
  return ranks_of(mesh) / axes_size(mesh, cutting_axes(spread)) / axes_size(mesh, spread.unreduced);
}

// [I_X, J_Y] as [J_Y, I_X].
inline Spread transposed(const Spread& spread) {
  Spread result = spread;
  std::reverse(result.dims.begin(), result.dims.end());
  return result;
}

}  // namespace yotta
