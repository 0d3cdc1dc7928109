// Lesson 01: one number in six formats, what rounding does to sums, and how much work training is.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/formats_picture.hpp"
#include "processor.hpp"
#include "yotta/core/numbers.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

void bits(Lesson& lesson) {
  lesson.section("Pi in six formats");
  for (const NumberFormat& f : formats::all) {
    const double x = round_to(3.14159265358979, f);
    lesson.say("{:<9} {:<34} {:<10.8g} off by {:.1e}", f.name, draw_bits(x, f), x,
               std::abs(x - 3.14159265358979));
  }
}

void one_bit_flipped(Lesson& lesson) {
  const NumberFormat f = formats::bf16;
  lesson.section("Pi in bf16, one bit flipped");
  const uint32_t pi = code_of(3.14159265358979, f);
  const auto line = [&](const char* what, int bit) {
    const double x = value_of(pi ^ 1u << bit, f);
    lesson.say("{:<24} {}  {:.4g}", what, draw_bits(x, f), x);
  };
  lesson.say("{:<24} {}  {:.4g}", "as it is", draw_bits(3.14159265358979, f), value_of(pi, f));
  line("the sign", 15);
  line("the exponent's first", 14);
  line("the exponent's last", 7);
  line("the mantissa's first", 6);
  line("the mantissa's last", 0);
}

void ranges(Lesson& lesson, const std::vector<NumberFormat>& all) {
  lesson.section("How far, how fine");
  console::Table table({"format", "bits", "largest", "smallest normal", "smallest", "next after 1",
                        "1 + 1 + ... stops at"});
  for (const NumberFormat& f : all)
    table.row({f.name, fmt::format("{}", f.bits()), fmt::format("{:.5g}", largest(f)),
               fmt::format("{:.3g}", smallest_normal(f)), fmt::format("{:.3g}", smallest(f)),
               fmt::format("1 + 2^-{}", f.mantissa), fmt::format("{:.0f}", ones_stop_at(f))});
  lesson.show(table.text());
  for (const NumberFormat& f : {formats::e4m3, formats::e5m2}) {
    std::string ruler(65, ' ');  // from 0 to 4
    for (double x = 0; x <= 4; x += spacing(x, f)) ruler[static_cast<size_t>(16 * x)] = '|';
    lesson.say("{:<9} {}", f.name, ruler);
  }
  lesson.say("{:<9} 0{:>16}{:>16}{:>16}{:>16}", "", 1, 2, 3, 4);
}

// Many terms in [0, 1), each a number of bf16, so that only sums are rounded.
std::vector<double> terms(size_t count) {
  std::vector<double> all(count);
  const Random random(1, "terms");
  for (size_t i = 0; i < count; ++i) all[i] = round_to(random.uniform(i), formats::bf16);
  return all;
}

void sums(Lesson& lesson, int64_t count) {
  lesson.section("Sums that stop growing");
  const std::vector<double> ones(static_cast<size_t>(count), 1.0);
  for (const NumberFormat& f : {formats::bf16, formats::fp16, formats::fp32}) {
    const RunningSum sum = sum_in_order(ones, f);
    lesson.say("{} ones in {}: {:.0f}; {} additions changed nothing", count, f.name, sum.value,
               sum.lost);
    lesson.number(fmt::format("lost.{}", f.name), static_cast<double>(sum.lost));
  }
  const std::vector<double> random_terms = terms(static_cast<size_t>(count));
  double exact = 0, chance = 0;
  const Random random(2, "rounding");
  for (size_t i = 0; i < random_terms.size(); ++i) {
    exact += random_terms[i];
    chance = round_stochastically(chance + random_terms[i], formats::bf16, random.uniform(i));
  }
  const auto line = [&](const char* how, double value) {
    lesson.say("{:<34} {:>9.2f}   {:>6.2f}% off", how, value, 100 * std::abs(value / exact - 1));
  };
  lesson.section(fmt::format("{} random terms, five ways", count));
  lesson.say("{:<34} {:>9}   {:>7}", "", "sum", "error");
  line("exact", exact);
  line("bf16, one after the other", sum_in_order(random_terms, formats::bf16).value);
  line("bf16, in pairs", sum_pairwise(random_terms, formats::bf16));
  line("bf16, stochastic rounding", chance);
  line("bf16, compensated", sum_compensated(random_terms, formats::bf16).value);
  line("fp32, one after the other", sum_in_order(random_terms, formats::fp32).value);
}

// The same numbers in two orders: `start` and then 100 ones, or the ones first.
void two_orders(Lesson& lesson, double start) {
  lesson.section("One sum in two orders, in bf16");
  std::vector<double> terms(101, 1.0);
  for (const size_t place : {size_t{0}, size_t{100}}) {
    terms.assign(101, 1.0);
    terms[place] = start;
    lesson.say("{:<28} {:.0f}",
               place == 0 ? "the number first, then ones:" : "ones first, then the number:",
               sum_in_order(terms, formats::bf16).value);
  }
}

void dots(Lesson& lesson) {
  lesson.section("A dot product of bf16 numbers: error by length and by the sum's format");
  console::Table table({"length", "sums in bf16", "sums in fp16", "sums in fp32"});
  for (const size_t k : {16u, 256u, 4096u, 65536u}) {
    const std::vector<double> x = terms(k);
    double exact = 0;
    for (const double each : x) exact += each * each;
    std::vector<std::string> row = {fmt::format("{}", k)};
    for (const NumberFormat& sum : {formats::bf16, formats::fp16, formats::fp32})
      row.push_back(fmt::format("{:.5f}%",
                                100 * std::abs(dot_product(x, x, formats::bf16, sum) / exact - 1)));
    table.row(row);
  }
  lesson.show(table.text());
}

void training(Lesson& lesson) {
  lesson.section("What that does to training");
  double plain = 1, chance = 1, master = 1;
  CompensatedSum compensated{1, 0};
  const Random random(3, "updates");
  for (uint64_t step = 0; step < 1000; ++step) {
    plain = round_to(plain + 1e-3, formats::bf16);
    chance = round_stochastically(chance + 1e-3, formats::bf16, random.uniform(step));
    master = round_to(master + 1e-3, formats::fp32);
    compensated.add(1e-3, formats::bf16);
  }
  lesson.say("a weight of 1 after 1000 steps of +0.001");
  lesson.say("  kept in bf16                        {:.4f}", plain);
  lesson.say("  in bf16, rounded stochastically     {:.4f}", chance);
  lesson.say("  in bf16, compensated                {:.4f}", compensated.value);
  lesson.say("  kept in fp32, copied to bf16        {:.4f}", round_to(master, formats::bf16));
  lesson.say("a gradient of 1e-8");
  lesson.say("  in fp16                             {:.3g}", round_to(1e-8, formats::fp16));
  lesson.say("  in fp16, the loss scaled by 65536   {:.3g}",
             round_to(1e-8 * 65536, formats::fp16) / 65536);
  lesson.say("  in bf16                             {:.3g}", round_to(1e-8, formats::bf16));
}

void integers(Lesson& lesson) {
  lesson.section("Integers");
  lesson.say(
      "int8 holds -128 to {}; a sum in int16 is sure to hold only {} product of two of them,",
      largest_integer(8), products_that_fit(8, 16));
  lesson.say("a sum in int32 {}; a longer dot product must be added up in pieces",
             products_that_fit(8, 32));
  lesson.say("0.7312 in steps of 1/127: {} steps, {:.4f}", quantize(0.7312, 1 / 127.0, 8),
             static_cast<double>(quantize(0.7312, 1 / 127.0, 8)) / 127);
}

void large_numbers(Lesson& lesson) {
  lesson.section("Large numbers: FLOP, FLOP/s, PF-days");
  struct Model {
    const char* name;
    double parameters, tokens;
  };
  console::Table table({"model", "parameters", "tokens", "FLOP", "PF-days", "days on 1024 at 40%"});
  for (const Model& m : {Model{"GPT-3", 175e9, 300e9}, Model{"Chinchilla", 70e9, 1.4e12},
                         Model{"Llama 3 405B", 405e9, 15.6e12}}) {
    const double flops = training_flops(m.parameters, m.tokens);
    table.row({m.name, fmt::format("{:.3g}", m.parameters), fmt::format("{:.3g}", m.tokens),
               fmt::format("{:.3g}", flops), fmt::format("{:.0f}", pf_days(flops)),
               fmt::format("{:.2f}", training_seconds(flops, 1024, 989.4e12, 0.4) / 86'400)});
    lesson.number(fmt::format("{}.pf_days", m.name), pf_days(flops));
  }
  lesson.show(table.text());
  lesson.say("(the last column: H100s at 989.4 TFLOP per second in bf16, 40% of it used)");
}

// ---- processor.md ----

void stored_program(Lesson& lesson) {
  using namespace processor_page;
  lesson.section("A processor: a program and its data in one memory");
  for (uint32_t i = 0; i < std::size(dot_program); ++i)
    lesson.say("{:>4}  {:08x}  {}", 4 * i, dot_program[i].word, dot_program[i].text);
  lesson.say("{:>4}  2 3 4 5 6 7          a, then b", 4 * std::size(dot_program));
}

void dot_on_a_processor(Lesson& lesson) {
  using namespace processor_page;
  lesson.section("It runs: the registers each time that it jumps back");
  lesson.say("{:>8}{:>6}{:>6}{:>6}{:>6}", "x5", "x10", "x11", "x12", "x13");
  Processor processor = dot_processor();
  while (processor.step())
    if (processor.pc() == 28)
      lesson.say("{:>8}{:>6}{:>6}{:>6}{:>6}", processor.x(5), processor.x(10), processor.x(11),
                 processor.x(12), processor.x(13));
  const double terms = 3, instructions = static_cast<double>(processor.instructions());
  lesson.say("the sum is {}: {:.0f} instructions, {} loads of data", processor.x(12), instructions,
             processor.loads());
  lesson.say("for each term: {:.0f} bytes of instructions, {:.0f} of data, 2 operations",
             4 * instructions / terms, 4 * static_cast<double>(processor.loads()) / terms);
  Processor other = dot_processor(2, 1u << 25);
  while (other.step()) continue;
  lesson.say("bit 25 of word 2 flipped: mul is add, and the sum is {}", other.x(12));
}

}  // namespace

int main(int argc, char** argv) {
  int64_t count = 4096, exponent = 0, mantissa = 9, start = 0, drawn = 0;
  return run_lesson_without_ranks(
      argc, argv,
      {"01", "Numbers", "what a number loses in 16 and 8 bits, and how much work training is"},
      [&](Lesson& lesson) {
        bits(lesson);
        one_bit_flipped(lesson);
        std::vector<NumberFormat> all(std::begin(formats::all), std::end(formats::all));
        if (exponent != 0)
          all.push_back({"mine", static_cast<int>(exponent), static_cast<int>(mantissa)});
        ranges(lesson, all);
        sums(lesson, count);
        if (start != 0) two_orders(lesson, static_cast<double>(start));
        dots(lesson);
        training(lesson);
        integers(lesson);
        large_numbers(lesson);
        stored_program(lesson);
        dot_on_a_processor(lesson);
        if (drawn != 0) std::ofstream("formats.svg") << formats_svg();
        lesson.say("\nNext: write it yourself, ./yotta check 01");
      },
      {{"terms", "how many terms are added up", &count, 1, 1'000'000},
       {"exponent", "exponent bits of a format of your own; 0: none", &exponent, 0, 8},
       {"mantissa", "its mantissa bits", &mantissa, 1, 23},
       {"start", "a number that is added to 100 ones in two orders; 0: none", &start, 0, 60'000},
       {"draw", "1: write the page's picture, formats.svg, into this folder", &drawn, 0, 1}});
}
