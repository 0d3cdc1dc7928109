// The bodies of model/files that read a tokenizer.json. PCRE2 and utf8proc are used where CMake
// found them.
#include "yotta/model/files/impl/nfc.ipp"
#include "yotta/model/files/impl/split_regex.ipp"
#include "yotta/model/files/impl/tokenizer_json.ipp"
