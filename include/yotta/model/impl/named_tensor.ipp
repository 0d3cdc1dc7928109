// The bodies of model/named_tensor.hpp.
#pragma once

#include "yotta/model/named_tensor.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string_view>

namespace yotta {

YOTTA_INLINE std::vector<NamedTensor> named_values(const std::vector<ParameterPtr>& parameters) {
  std::vector<NamedTensor> named;
  for (const ParameterPtr& each : parameters) named.push_back({each->name, each->value});
  return named;
}

YOTTA_INLINE std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 3; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > 3) text += fmt::format(" and {} more", names.size() - 3);
  return text;
}

YOTTA_INLINE void expect_same_names(const std::string& source,
                                    const std::vector<std::string>& expected,
                                    const std::vector<std::string>& found, Where where) {
  const auto absent_from = [](const std::vector<std::string>& from,
                              const std::vector<std::string>& names) {
    const std::set<std::string_view> there(from.begin(), from.end());
    std::vector<std::string> absent;
    for (const std::string& name : names)
      if (!there.contains(name)) absent.push_back(name);
    return absent;
  };
  const std::vector<std::string> missing = absent_from(found, expected);
  const std::vector<std::string> unknown = absent_from(expected, found);
  if (!missing.empty())
    fail(where, "{} lacks {} tensors of this model ({}){}", source, missing.size(),
         list_names(missing),
         unknown.empty() ? "" : " and holds others (" + list_names(unknown) + ")");
  if (!unknown.empty())
    fail(where, "{} holds {} tensors that this model does not have ({})", source, unknown.size(),
         list_names(unknown));
}

YOTTA_INLINE void expect_loadable(const std::string& source, const std::string& name,
                                  const Shape& expected_shape, DType expected_dtype,
                                  const Shape& shape, DType dtype, Where where) {
  if (shape != expected_shape || info(dtype).is_float != info(expected_dtype).is_float)
    fail(where, "{}: '{}' is {} {}, expected {} {}", source, name, str(shape), yotta::name(dtype),
         str(expected_shape), yotta::name(expected_dtype));
}

YOTTA_INLINE bool all_finite(const Tensor& x) {
  if (!x.defined() || x.device() == Device::meta || !info(x.dtype()).is_float) return true;
  if (x.device() == Device::cuda) return all_finite(x.to(Device::cpu));
  bool finite = true;
  visit(x.dtype(), [&]<class T>(Type<T>) {
    for (const T& value : x.span<T>()) finite = finite && std::isfinite(static_cast<double>(value));
  });
  return finite;
}

YOTTA_INLINE void expect_finite(const std::string& source, const std::string& name,
                                const Tensor& value, Where where) {
  if (!all_finite(value))
    fail(where,
         "{}: '{}' is not finite: it holds NaN or infinity; the file is damaged, or was saved by a "
         "run that had diverged",
         source, name);
}

YOTTA_INLINE void expect_state(const std::string& source, const std::string& name,
                               const Tensor& value, Where where) {
  expect_finite(source, name, value, where);
  if (!name.starts_with("exp_avg_sq.") || value.device() == Device::meta) return;
  bool below = false;
  visit(value.dtype(), [&]<class T>(Type<T>) {
    for (const T& number : value.span<T>()) below = below || static_cast<double>(number) < 0;
  });
  if (below)
    fail(where, "{}: '{}' is below 0, which no second moment is; the file is damaged", source,
         name);
}

YOTTA_INLINE void assign_all(const std::vector<NamedTensor>& targets,
                             const std::vector<NamedTensor>& values, const std::string& source,
                             Where where) {
  std::map<std::string, Tensor> by_name;
  std::vector<std::string> expected, found;
  for (const NamedTensor& target : targets) expected.push_back(target.name);
  for (const NamedTensor& each : values) {
    found.push_back(each.name);
    by_name[each.name] = each.value;
  }
  expect_same_names(source, expected, found, where);
  for (const NamedTensor& target : targets) {
    const Tensor& value = by_name[target.name];
    expect_loadable(source, target.name, target.value.shape(), target.value.dtype(), value.shape(),
                    value.dtype(), where);
  }
  for (NamedTensor target : targets) target.value.copy_from(by_name[target.name], where);
}

}  // namespace yotta
