// Named tensors: what files hold, and how a whole set of them is taken over, all or nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "yotta/core/tensor.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

// Strings about tensors: what a file says of itself.
using Metadata = std::map<std::string, std::string>;

struct NamedTensor {
  std::string name;
  Tensor value;
};

// A model's weights under their names; the same memory.
std::vector<NamedTensor> named_values(const std::vector<ParameterPtr>& parameters);

// "a, b, c and 9 more"
std::string list_names(const std::vector<std::string>& names);

// Throws unless both lists hold the same names. `source` says where `found` comes from.
void expect_same_names(const std::string& source, const std::vector<std::string>& expected,
                       const std::vector<std::string>& found, Where where);

// Throws unless a tensor can be loaded where another is expected: the same shape, and floats for
// floats, which are rounded where their types differ.
void expect_loadable(const std::string& source, const std::string& name,
                     const Shape& expected_shape, DType expected_dtype, const Shape& shape,
                     DType dtype, Where where);

// No infinity and no NaN? True of a tensor without floats, or without data.
bool all_finite(const Tensor& x);

// Throws if a tensor of a file holds NaN or infinity: a run that starts from one cannot be rescued
// any more.
void expect_finite(const std::string& source, const std::string& name, const Tensor& value,
                   Where where);

// The same of a tensor of an optimizer, and its second moments (exp_avg_sq) are not below 0: AdamW
// takes their roots. As read from a file, on the CPU.
void expect_state(const std::string& source, const std::string& name, const Tensor& value,
                  Where where);

// Sets every target to the value of its name. Everything is checked before the first is changed.
void assign_all(const std::vector<NamedTensor>& targets, const std::vector<NamedTensor>& values,
                const std::string& source, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/named_tensor.ipp"
#endif
