// NFC: Unicode's composed form, in which Qwen's tokenizers want a text.
//
//     e U+0301 (e and an accent)  ->  U+00E9 (one letter)
//
// A text of characters below U+0300 is in this form already. For any other text utf8proc has the
// tables. CMake defines YOTTA_HAVE_UTF8PROC for yotta::compiled where it finds that library. Cost:
// one pass; only lines that hold other characters are looked up. Reference: Unicode Standard Annex
// 15.
#pragma once

#include <string>
#include <string_view>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

// Whether this program can compose any text.
bool has_nfc();

// A UTF-8 text in NFC. `place` says in errors what wants it.
std::string to_nfc(std::string_view text, const std::string& place, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/files/impl/nfc.ipp"
#endif
