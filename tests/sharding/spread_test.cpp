#include "yotta/sharding/spread.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a mesh is read and printed") {
  const NamedMesh mesh = parse_mesh("{X 4, Y 8, Z 2}");
  CHECK(mesh == parse_mesh("X 4,Y 8 , Z 2"));
  CHECK(str(mesh) == "{X 4, Y 8, Z 2}");
  CHECK(parse_mesh(str(mesh)) == mesh);
  CHECK(ranks_of(mesh) == 64);
  CHECK(axes_size(mesh, "XZ") == 8);
  CHECK(axes_size(mesh, "") == 1);
}

TEST_CASE("the first axis counts fastest in a rank's number") {
  const NamedMesh mesh = parse_mesh("X 4, Y 8, Z 2");
  for (int rank = 0; rank < 64; ++rank)
    CHECK(coordinate(mesh, rank, 'X') +
              4 * (coordinate(mesh, rank, 'Y') + 8 * coordinate(mesh, rank, 'Z')) ==
          rank);
}

TEST_CASE("spreads are read, and printed as they are written") {
  const NamedMesh mesh = parse_mesh("X 4, Y 8, Z 2");
  for (const char* text : {"[I_XY, J]", "[I, J]", "[I_X, J_Y]{U_Z}", "[I_YX, J]", "[B_Z]",
                           "[B, D_X, F]{U_YZ}", "[B, T, C_XYZ]"})
    CHECK(str(parse_spread(text, mesh)) == text);
  CHECK(str(parse_spread("W_in[ D_X,F ]{U_ZY}", mesh)) == "[D_X, F]{U_YZ}");
  CHECK(parse_spread("A[I_XY, J]", mesh) != parse_spread("A[I_YX, J]", mesh));
}

TEST_CASE("what cannot be read is refused, with the place") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const auto says = [&](const char* text) { return message_of([&] { parse_spread(text, mesh); }); };
  CHECK(contains(says("[I_X, J"), "expected ']' at place 8, where the text ends"));
  CHECK(contains(says("I_X, J"), "expected '[' at place 1"));
  CHECK(contains(says("[I_, J]"), "expected axes at place 4"));
  CHECK(contains(says("[I_x, J]"), "expected axes at place 4"));
  CHECK(contains(says("[I, J] and more"), "a spread is written as [I_X, J]{U_Y}"));
  CHECK(contains(says("[I_Z, J]"), "the mesh {X 2, Y 2} has no axis Z"));
  CHECK(contains(message_of([] { parse_mesh("X 2, X 3"); }), "has axis X twice"));
  CHECK(contains(message_of([] { parse_mesh("X 0"); }), "every axis has at least one"));
  CHECK(contains(message_of([] { parse_mesh("XY 4"); }), "an axis is one capital letter"));
}

TEST_CASE("an axis stands once in a spread, and the refusal says why") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const std::string twice = message_of([&] { parse_spread("C[I_X, K_X]", mesh); });
  CHECK(contains(twice, "[I_X, K_X]: axis X cuts I and cuts K"));
  CHECK(contains(twice, "held by no rank"));
  CHECK(contains(message_of([&] { parse_spread("[I_XX, K]", mesh); }), "cuts I and cuts I"));
  CHECK(contains(message_of([&] { parse_spread("[I_X, K]{U_X}", mesh); }),
                 "cuts I and is unreduced"));
}

TEST_CASE("copies: the axes that stand nowhere") {
  const NamedMesh mesh = parse_mesh("X 4, Y 8, Z 2");
  CHECK(copies_of(parse_spread("[I_XY, J]", mesh), mesh) == 2);
  CHECK(copies_of(parse_spread("[I, J]", mesh), mesh) == 64);
  CHECK(copies_of(parse_spread("[I, J_Z]{U_X}", mesh), mesh) == 8);
  CHECK(cutting_axes(parse_spread("[I_ZX, J_Y]", mesh)) == "ZXY");
  CHECK(str(transposed(parse_spread("[I_X, J_Y]{U_Z}", mesh))) == "[J_Y, I_X]{U_Z}");
}
