#include "yotta/comm/layouts/mesh_text.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("layouts are read as they are written on the command line") {
  CHECK(parse_mesh("dp=2,tp=4") == MeshShape{.tp = 4, .dp_replicate = 2});
  CHECK(parse_mesh("pp=3,fsdp=2,cp=2") == MeshShape{.cp = 2, .pp = 3, .dp_shard = 2});
  CHECK(parse_mesh("dp_shard=2,dp_replicate=5") == MeshShape{.dp_shard = 2, .dp_replicate = 5});
  CHECK(parse_mesh("ep=4,dp=2") == MeshShape{.ep = 4, .dp_replicate = 2});
  CHECK(parse_mesh("") == MeshShape{});
  CHECK(contains(message_of([] { parse_mesh("pp=2,tp=2,pp=2"); }), "pp is given twice"));
  for (const char* many : {"tp=999999,pp=999999", "tp=999999,pp=999999,dp=999999,fsdp=999999"})
    CHECK(contains(message_of([&] { parse_mesh(many); }), "makes more than 2147483647 ranks"));
  for (const char* wrong : {"xp=2", "tp", "tp=", "tp=0", "tp=-1", "tp=two", "tp=2,,dp=2", "=2"})
    CHECK(contains(message_of([&] { parse_mesh(wrong); }), "a layout is written as in pp=2,tp=2"));
}

TEST_CASE("the picture shows which rank has which coordinates") {
  CHECK(picture({.tp = 2, .pp = 2, .dp_shard = 2}) ==
        "                       tp 0   tp 1\n"
        "   dp_shard 0   pp 0      0      1\n"
        "   dp_shard 0   pp 1      2      3\n"
        "   dp_shard 1   pp 0      4      5\n"
        "   dp_shard 1   pp 1      6      7\n");
  CHECK(contains(picture({.dp_shard = 2, .dp_replicate = 2}, short_name),
                 "   dp 1   fsdp 0      2\n"));
  CHECK(picture({}) == "      0\n");
  CHECK(picture({.pp = 2}) == "   pp 0      0\n   pp 1      1\n");
}
