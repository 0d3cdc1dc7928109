// The bodies of model/files/nfc.hpp.
#pragma once

#include "yotta/model/files/nfc.hpp"

#include <algorithm>

#ifdef YOTTA_HAVE_UTF8PROC
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#endif

namespace yotta {

#ifdef YOTTA_HAVE_UTF8PROC

YOTTA_INLINE bool has_nfc() { return true; }

namespace detail {
struct FreeText {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};
inline std::string compose_line(std::string_view line, const std::string& place, Where where) {
  utf8proc_uint8_t* made = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(line.data()),
                   static_cast<utf8proc_ssize_t>(line.size()), &made, options);
  const std::unique_ptr<utf8proc_uint8_t, FreeText> held(made);
  if (size < 0)
    fail(where, "{}: a line of {} bytes cannot be put into NFC: {}", place, line.size(),
         utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(size)};
}
}  // namespace detail

#else

YOTTA_INLINE bool has_nfc() { return false; }

namespace detail {
inline std::string compose_line(std::string_view, const std::string& place, Where where) {
  fail(where,
       "{}: this text has characters from U+0300 on, which may have to be composed (NFC), and this "
       "program was built without utf8proc, which does that; install it (Debian, Ubuntu: apt-get "
       "install libutf8proc-dev), delete the build folder and build again",
       place);
}
}  // namespace detail

#endif  // YOTTA_HAVE_UTF8PROC

// No character is composed over the end of a line, nor with a U+11A7 that follows it, which
// utf8proc 2.8 would drop after a syllable.
YOTTA_INLINE std::string to_nfc(std::string_view text, const std::string& place, Where where) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    line = line.substr(0, line.find("\xE1\x86\xA7", 1));
    const bool composed = std::all_of(line.begin(), line.end(), [](char each) {
      return static_cast<unsigned char>(each) < 0xCC;  // the first byte of U+0300
    });
    out += composed ? std::string(line) : detail::compose_line(line, place, where);
    text.remove_prefix(line.size());
  }
  return out;
}

}  // namespace yotta
