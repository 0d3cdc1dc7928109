#include "yotta/nn/attention_kind.hpp"

#include <doctest/doctest.h>

#include <string_view>

using namespace yotta;

TEST_CASE("kinds have the names that the command line and error messages use") {
  CHECK(std::string_view(name(AttentionKind::plain)) == "plain");
  CHECK(std::string_view(name(AttentionKind::blockwise)) == "blockwise");
}
