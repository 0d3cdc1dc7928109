#include "yotta/device/unchanged/integer_intrinsics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

TEST_CASE("bits are counted and moved as the CUDA Math API says") {
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__popcll(~0ull) == 64);
  CHECK(__clz(0) == 32);
  CHECK(__clz(1) == 31);
  CHECK(__clz(-1) == 0);
  CHECK(__clzll(1) == 63);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(8) == 4);
  CHECK(__ffs(std::numeric_limits<int>::min()) == 32);
  CHECK(__ffsll(1ll << 40) == 41);
  CHECK(__brev(1) == 0x80000000u);
  CHECK(__brev(0x12345678u) == 0x1e6a2c48u);
  CHECK(__brevll(1) == 1ull << 63);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x5410) == 0x55441100u);
  CHECK(__byte_perm(0x00000080u, 0, 0x8888) == 0xffffffffu);
  CHECK(__funnelshift_l(0x80000001u, 0x00000003u, 1) == 0x00000007u);
  CHECK(__funnelshift_r(0x80000001u, 0x00000003u, 1) == 0xc0000000u);
  CHECK(__funnelshift_l(5, 9, 32) == 9);
  CHECK(__funnelshift_lc(5, 9, 40) == 5);
  CHECK(__funnelshift_rc(5, 9, 40) == 9);
}

TEST_CASE("high words, products of 24 bits, averages, products of bytes") {
  CHECK(__mulhi(1 << 30, 8) == 2);
  CHECK(__mulhi(-1, 1) == -1);
  CHECK(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu);
  CHECK(__umul64hi(1ull << 63, 4) == 2);
  CHECK(__mul64hi(-1, 1) == -1);
  CHECK(__mul24(0x01000003, 5) == 15);
  CHECK(__mul24(0x00ffffff, 5) == -5);
  CHECK(__umul24(0xff000003u, 5) == 15);
  CHECK(__hadd(5, 8) == 6);
  CHECK(__rhadd(5, 8) == 7);
  CHECK(__hadd(std::numeric_limits<int>::max(), std::numeric_limits<int>::max()) ==
        std::numeric_limits<int>::max());
  CHECK(__sad(-3, 4, 10) == 17);
  CHECK(__usad(9, 4, 10) == 15);
  CHECK(__dp4a(0x01ff0203, 0x02030401, 100) == 100 + 2 - 3 + 8 + 3);
  CHECK(__dp4a(0x01010101, 0x01010101, std::numeric_limits<int>::max()) ==
        std::numeric_limits<int>::min() + 3);
  CHECK(__dp4a(0x01ff0203u, 0x02030401u, 0u) == 2u + 3 * 255 + 8 + 3);
}

TEST_CASE("bits of floats, and integers of floats with each rounding") {
  CHECK(__float_as_int(1.0f) == 0x3f800000);
  CHECK(__uint_as_float(0x40490fdbu) == 3.14159274f);
  CHECK(__double2hiint(1.0) == 0x3ff00000);
  CHECK(__hiloint2double(0x40000000, 0) == 2.0);
  CHECK(__float2int_rn(2.5f) == 2);
  CHECK(__float2int_rn(3.5f) == 4);
  CHECK(__float2int_rz(-2.7f) == -2);
  CHECK(__float2int_rd(-0.5f) == -1);
  CHECK(__float2int_ru(0.5f) == 1);
  CHECK(__float2int_rn(NAN) == 0);
  CHECK(__float2uint_rz(NAN) == 0);
  CHECK(__float2ll_rn(NAN) == std::numeric_limits<long long>::min());
  CHECK(__float2ull_rn(NAN) == 1ull << 63);
  CHECK(__double2int_rn(double{NAN}) == std::numeric_limits<int>::min());
  CHECK(__double2uint_rn(double{NAN}) == 1u << 31);
  CHECK(__float2int_rn(1e20f) == std::numeric_limits<int>::max());
  CHECK(__float2int_rn(-1e20f) == std::numeric_limits<int>::min());
  CHECK(__float2uint_rn(-3.0f) == 0);
  CHECK(__double2ll_rn(-1e18) == -1000000000000000000ll);
}
