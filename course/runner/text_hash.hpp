// FNV-1a: tells texts apart that nobody has made to be alike.
#pragma once

#include <cstdint>
#include <string_view>

namespace runner {

inline uint64_t text_hash(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace runner
