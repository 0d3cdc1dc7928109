// Stands in for xeus-cpp's header of this name when the suite runs a notebook without Jupyter: what would
// be shown is printed.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>

namespace xcpp {

template <class T>
void display(const T& shown) {
  const nlohmann::json bundle = mime_bundle_repr(shown);
  for (const auto& [type, data] : bundle.items())
    std::printf("[%s, %s]\n", type.c_str(), data.template get<std::string>().c_str());
}

}  // namespace xcpp
