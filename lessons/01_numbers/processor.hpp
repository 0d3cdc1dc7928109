// A processor in a page: memory, 32 registers, a program counter, and six instructions of RISC-V
// (RV32IM). Instructions and data are words of one memory: von Neumann's idea.
//
//     bits     31 ... 25   24 ... 20   19 ... 15   14 ... 12   11 ... 7   6 ... 0
//     add, mul  funct7       rs2         rs1        funct3       rd       0x33
//     addi      imm[11:0] ........       rs1        funct3       rd       0x13
//     lw        imm[11:0] ........       rs1        funct3       rd       0x03
//     bne       imm         rs2          rs1        funct3       imm      0x63
//
// Reference: The RISC-V Instruction Set Manual, volume I, chapters on RV32I and M.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace yotta::processor_page {

// ---- assembling: one 32-bit word each ----

constexpr uint32_t register_word(uint32_t funct7, int rd, int rs1, int rs2) {
  return funct7 << 25 | static_cast<uint32_t>(rs2) << 20 | static_cast<uint32_t>(rs1) << 15 |
         static_cast<uint32_t>(rd) << 7 | 0x33;
}
constexpr uint32_t add(int rd, int rs1, int rs2) { return register_word(0, rd, rs1, rs2); }
constexpr uint32_t mul(int rd, int rs1, int rs2) { return register_word(1, rd, rs1, rs2); }
constexpr uint32_t immediate_word(uint32_t opcode, uint32_t funct3, int rd, int rs1, int32_t imm) {
  return static_cast<uint32_t>(imm) << 20 | static_cast<uint32_t>(rs1) << 15 | funct3 << 12 |
         static_cast<uint32_t>(rd) << 7 | opcode;
}
constexpr uint32_t addi(int rd, int rs1, int32_t imm) {
  return immediate_word(0x13, 0, rd, rs1, imm);
}
constexpr uint32_t lw(int rd, int rs1, int32_t imm) {
  return immediate_word(0x03, 2, rd, rs1, imm);
}
constexpr uint32_t bne(int rs1, int rs2, int32_t by) {
  const auto imm = static_cast<uint32_t>(by);
  return (imm >> 12 & 1) << 31 | (imm >> 5 & 63) << 25 | static_cast<uint32_t>(rs2) << 20 |
         static_cast<uint32_t>(rs1) << 15 | 1u << 12 | (imm >> 1 & 15) << 8 | (imm >> 11 & 1) << 7 |
         0x63;
}
inline constexpr uint32_t ebreak = 0x00100073;  // stop

// ---- running ----

class Processor {
 public:
  explicit Processor(std::vector<uint32_t> words) : memory_(std::move(words)) {}

  uint32_t& x(int i) { return x_[static_cast<size_t>(i)]; }
  uint32_t pc() const { return pc_; }
  int64_t instructions() const { return instructions_; }
  int64_t loads() const { return loads_; }

  // Fetch, decode, execute. False: it has stopped.
  bool step() {
    const uint32_t word = at(pc_);
    if (word == ebreak) return false;
    const uint32_t opcode = word & 127, rd = word >> 7 & 31, a = x_[word >> 15 & 31],
                   b = x_[word >> 20 & 31];
    const uint32_t imm = static_cast<uint32_t>(static_cast<int32_t>(word) >> 20);
    uint32_t next = pc_ + 4;
    if (opcode == 0x33)
      x_[rd] = word >> 25 == 1 ? a * b : a + b;
    else if (opcode == 0x13)
      x_[rd] = a + imm;
    else if (opcode == 0x03)
      x_[rd] = at(a + imm), ++loads_;
    else if (opcode == 0x63)
      next = a != b ? pc_ + branch_of(word) : next;
    else
      throw std::runtime_error("this processor knows add, mul, addi, lw, bne and ebreak alone");
    x_[0] = 0;  // register 0 is always 0
    pc_ = next, ++instructions_;
    return true;
  }

 private:
  uint32_t at(uint32_t address) const { return memory_.at(address / 4); }
  static uint32_t branch_of(uint32_t word) {
    const uint32_t sign = static_cast<uint32_t>(static_cast<int32_t>(word) >> 31);
    return sign << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 63) << 5 | (word >> 8 & 15) << 1;
  }

  std::vector<uint32_t> memory_;
  std::array<uint32_t, 32> x_ = {};
  uint32_t pc_ = 0;
  int64_t instructions_ = 0, loads_ = 0;
};

// ---- a dot product ----

struct Line {
  uint32_t word;
  const char* text;
};
inline constexpr Line dot_program[] = {
    {lw(5, 10, 0), "lw   x5, 0(x10)       x5 = the next number of a"},
    {lw(6, 11, 0), "lw   x6, 0(x11)       x6 = the next number of b"},
    {mul(5, 5, 6), "mul  x5, x5, x6"},
    {add(12, 12, 5), "add  x12, x12, x5     the sum"},
    {addi(10, 10, 4), "addi x10, x10, 4      four bytes on, in a"},
    {addi(11, 11, 4), "addi x11, x11, 4      and in b"},
    {addi(13, 13, -1), "addi x13, x13, -1     one less to do"},
    {bne(13, 0, -28), "bne  x13, x0, -28     back to the top, unless x13 is 0"},
    {ebreak, "ebreak                stop"},
};

// The program, then a = 2 3 4 and b = 5 6 7, in one memory.
inline Processor dot_processor(uint32_t flipped_word = 0, uint32_t flipped_bits = 0) {
  std::vector<uint32_t> memory;
  for (const Line& line : dot_program) memory.push_back(line.word);
  memory.insert(memory.end(), {2, 3, 4, 5, 6, 7});
  memory.at(flipped_word) ^= flipped_bits;
  Processor processor(memory);
  const uint32_t data = 4 * std::size(dot_program);
  processor.x(10) = data, processor.x(11) = data + 12, processor.x(13) = 3;
  return processor;
}

}  // namespace yotta::processor_page
