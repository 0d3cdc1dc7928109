// Random numbers that depend on *what* is drawn, not on who draws it or when.
//
// A generator with hidden state breaks as soon as work is split: rank 3 would have to know how many
// numbers ranks 0 to 2 have drawn. A counter-based generator has no state. The i-th number of a
// parameter is a pure function of (seed, the parameter's name, i):
//
//     Random(42, "layer3.weight").normal(i)      the same bits on every rank, in every layout
//
// so a rank that holds rows 512 to 1023 of a weight starts from exactly those values of the whole
// model, a dropout mask can be drawn again when activations are recomputed, and step 700's batch
// can be found without replaying steps 0 to 699.
//
// The function is Philox4x32-10: ten rounds of multiply and xor turn a 128-bit counter and a 64-bit
// key into 128 random bits. Key = seed; counter = (index / 4, hash of the name); each block serves
// four indices.
// Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace yotta {

using Block128 = std::array<uint32_t, 4>;

// Philox4x32-10 of a counter under a key. (What draws is always inlined: else the library, which is
// optimised, might be linked with the copy of a program that is not.)
[[gnu::always_inline]] constexpr Block128 philox(Block128 counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9u;  // the golden ratio
    key1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return counter;
}

// FNV-1a: 64 bits from a name.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

class Random {
 public:
  constexpr Random(uint64_t seed, std::string_view name) : seed_(seed), stream_(hash_name(name)) {}

  // The four words that serve indices 4 * block to 4 * block + 3.
  [[gnu::always_inline]] constexpr Block128 block(uint64_t block) const {
    return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                   static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                  static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
  }

  [[gnu::always_inline]] constexpr uint32_t bits(uint64_t index) const {
    return block(index / 4)[index % 4];
  }

  // Uniform in [0, 1), a multiple of 2^-32.
  [[gnu::always_inline]] constexpr double uniform(uint64_t index) const {
    return bits(index) * 0x1p-32;
  }

  // Uniform integer in [0, bound), by the high word of a product (bias below bound / 2^32).
  constexpr uint32_t below(uint64_t index, uint32_t bound) const {
    return static_cast<uint32_t>((uint64_t{bits(index)} * bound) >> 32);
  }

  // Standard normal by Box and Muller: indices 2k and 2k + 1 share a radius and an angle.
  [[gnu::always_inline]] double normal(uint64_t index) const {
    const Block128 words = block(index / 4);
    const uint64_t pair = index % 4 / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log((words[pair] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * (words[pair + 1] * 0x1p-32);
    return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace yotta
