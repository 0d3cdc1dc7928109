// Lesson 06: what it costs to ask a chip for something, and the ways to ask for less. All times are
// those of a described host and an H100, so they are the same on every computer.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/launch_picture.hpp"
#include "missing_event.hpp"
#include "yotta/device/emulator/loads_in_flight.hpp"
#include "yotta/device/occupancy.hpp"
#include "yotta/machine/latency_hiding.hpp"
#include "yotta/machine/toggle_power.hpp"

using namespace yotta;

namespace {

double us(double seconds) { return 1e6 * seconds; }
double ms(double seconds) { return 1e3 * seconds; }

// A step so many times, and after each what `end` gives for its number.
template <class End>
std::vector<HostCall> repeated(const std::vector<HostCall>& step, int times, const End& end) {
  std::vector<HostCall> program;
  for (int i = 0; i < times; ++i) {
    program.insert(program.end(), step.begin(), step.end());
    for (HostCall& call : end(i)) program.push_back(std::move(call));
  }
  return program;
}
std::vector<HostCall> nothing(int) { return {}; }

void two_timelines(Lesson& lesson, const Host& host) {
  lesson.section("Six kernels: of 12 us, of 2 us, and of 2 us with a wait after each");
  const double shown = 90e-6;
  for (const auto& [seconds, waits] : {std::pair{12e-6, false}, {2e-6, false}, {2e-6, true}}) {
    std::vector<HostCall> program;
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
      program.push_back(kernel(name, seconds));
      if (waits) program.push_back(synchronize());
    }
    const LaunchRun run = simulate(program, host);
    lesson.show(timeline_rows(run.spans, shown));
    lesson.say("          {:.1f} us, the chip computes for {:.0f}%", us(run.seconds),
               100 * run.busy_share());
  }
}

void sizes(Lesson& lesson, const Host& host) {
  const Roofline h100 = roofline_of(chip_named("h100"));
  lesson.section("An op on so many numbers in bf16, read and written, a hundred times: us an op");
  lesson.say("{:>12}{:>12}{:>10}{:>14}{:>10}{:>12}", "numbers", "by itself", "queued",
             "with a wait", "graph", "chip busy");
  for (const double n : {1e3, 1e5, 1e6, 6e6, 1e7, 1e8}) {
    const std::vector<HostCall> step = {kernel("op", h100.seconds(0, 4 * n))};
    const LaunchRun queued = simulate(repeated(step, 100, nothing), host);
    const LaunchRun waiting =
        simulate(repeated(step, 100, [](int) { return std::vector{synchronize()}; }), host);
    const LaunchRun graph =
        simulate(std::vector{capture(repeated(step, 100, nothing), 0).launch}, host);
    lesson.say("{:>12.0f}{:>12.2f}{:>10.2f}{:>14.2f}{:>10.2f}{:>11.0f}%", n, us(step[0].seconds),
               us(queued.seconds) / 100, us(waiting.seconds) / 100, us(graph.seconds) / 100,
               100 * queued.busy_share());
  }
  lesson.say("hidden from {:.1f} us on: {:.1f} MB of traffic, or a matmul of {:.0f} cubed",
             us(hiding_seconds(host)), 1e-6 * hiding_bytes(host, h100), hiding_matmul(host, h100));
  lesson.number("hiding_us", us(hiding_seconds(host)));
}

// Whether the chip, with the gaps before its kernels, takes as long as the host or longer.
bool chip_is_the_limit(int64_t sequences, const Host& host) {
  const LaunchRun run = simulate(gpt2_step(sequences), host);
  return run.busy + host.gap * static_cast<double>(run.spans.size() / 2) >= run.host;
}

void steps(Lesson& lesson, const Host& host) {
  lesson.section("A training step of GPT-2 small on an H100, by sequences of 1024 tokens");
  lesson.say("{:>10}{:>10}{:>12}{:>12}{:>12}{:>12}{:>14}", "sequences", "kernels", "host, ms",
             "chip, ms", "step, ms", "chip busy", "host is ahead");
  for (const int64_t sequences : {1, 2, 4, 8, 16, 64}) {
    const LaunchRun run = simulate(gpt2_step(sequences), host);
    const Span& last = run.spans[run.spans.size() - 2];  // the last kernel; then its launch
    lesson.say("{:>10}{:>10}{:>12.2f}{:>12.2f}{:>12.2f}{:>11.0f}%{:>11.2f} ms", sequences,
               run.spans.size() / 2, ms(run.host), ms(run.busy), ms(run.seconds),
               100 * run.busy_share(), ms(last.begin - last.issued));
    lesson.number(fmt::format("step.{}.busy_share", sequences), run.busy_share());
  }
  int64_t first = 1;
  while (!chip_is_the_limit(first, host)) ++first;
  lesson.say("sequences from which on the chip is the limit: {}", first);
}

void fewer(Lesson& lesson, const Host& host) {
  lesson.section("The step with 1 sequence: fewer ops, or one launch");
  const std::vector<HostCall> step = gpt2_step(1), fused = merged(step, "adamw");
  const LaunchGraph graph = capture(step, 4096);
  const std::vector<double> batch = {4096};
  const auto show = [&](const char* what, const std::vector<HostCall>& program) {
    const LaunchRun run = simulate(program, host);
    lesson.say("{:<44}{:>8.2f} ms, chip busy {:>3.0f}%", what, ms(run.seconds),
               100 * run.busy_share());
    return run.seconds;
  };
  const double eager = show("736 kernels, one by one", step);
  show(fmt::format("AdamW as one kernel: {} kernels", fused.size()).c_str(), fused);
  const double replayed =
      show("a graph of 736, and a copy of the batch", replayed_steps(graph, batch));
  show("a graph with AdamW as one kernel", replayed_steps(capture(fused, 4096), batch));
  lesson.number("graph_speedup", eager / replayed);
}

void losses(Lesson& lesson, const Host& host) {
  lesson.section("Reading the loss: ms a step, once the steps have settled");
  lesson.say("{:<44}{:>14}{:>14}", "", "4 sequences", "16 sequences");
  const auto row = [&](const char* what, const auto& end) {
    double found[2];
    for (const int at : {0, 1}) {
      const std::vector<HostCall> step = gpt2_step(at == 0 ? 4 : 16);
      const auto seconds = [&](int times) {
        return simulate(repeated(step, times, end), host).seconds;
      };
      found[at] =
          (seconds(16) - seconds(8)) / 8;  // the first and the last step are not like others
    }
    lesson.say("{:<44}{:>14.2f}{:>14.2f}", what, ms(found[0]), ms(found[1]));
  };
  row("never", nothing);
  row("after each step, then the next", [](int) { return std::vector{synchronize()}; });
  row("after each step, and 2 ms to write the log", [](int) {
    return std::vector{synchronize(), host_work("log", 2e-3)};
  });
  // The event of step i is waited for when step i + 1 has been issued.
  row("one step late, and 2 ms to write the log", [](int i) {
    std::vector<HostCall> end = {record(i, 0)};
    if (i > 0) end.push_back(synchronize(0, i - 1)), end.push_back(host_work("log", 2e-3));
    return end;
  });
}

void copies(Lesson& lesson, const Host& host) {
  lesson.section("Six steps of 1 ms, each with a batch of 20 MB from the host");
  const std::vector<HostCall> step = {kernel("step", 1e-3)};
  const auto show = [&](const char* what, const std::vector<HostCall>& program) {
    const LaunchRun run = simulate(program, host);
    lesson.say("{}: {:.2f} ms", what, ms(run.seconds));
    lesson.show(timeline_rows(run.spans, 21e-3, 63));
    const std::string race = first_race(run.spans);
    if (!race.empty()) lesson.say("a race: {}", race);
  };
  std::vector<HostCall> pageable = serial_steps(20e6, step, 6), pinned = pageable;
  for (HostCall& call : pageable) call.pinned = false;
  const std::vector<HostCall> overlapped = overlapped_steps(20e6, step, 6);
  std::vector<HostCall> wrong = overlapped;
  std::erase_if(
      wrong, [](const HostCall& call) { return call.kind == CallKind::wait && call.event == 3; });
  show("pageable, one stream", pageable);
  show("pinned, one stream", pinned);
  show("pinned, two streams and events", overlapped);
  show("the same, and nobody waits until buffer 1 has been used", wrong);
}

// The words in lines of at most 100 columns.
std::string wrapped(const std::string& text) {
  std::string lines, line;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, to - from);
    if (line.size() + 1 + word.size() > 100) lines += line + "\n", line.clear();
    line += (line.empty() ? "" : " ") + word;
    from = to + 1;
  }
  return lines + line;
}

void real_streams(Lesson& lesson) {
  lesson.section("The same in CUDA, in the emulator: 100 orders of what no event orders");
  const std::vector<float> expected = five_pieces(run_in_turn);
  const auto wrong_orders = [&](void (*run)(const StreamPieces&)) {
    int wrong = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      emulator_options().seed = seed;
      wrong += five_pieces(run) != expected ? 1 : 0;
    }
    return wrong;
  };
  lesson.say("all events: {} of 100 give wrong values", wrong_orders(run_overlapped));
  lesson.say("no wait until a buffer has been read: {} of 100", wrong_orders(run_without_wait));
  lesson.say("and what the checked build says of it:");
  std::string error = error_without_wait();
  if (const size_t at = error.find(" streams.hpp:"); at != error.npos)  // the page names no lines
    error.replace(at - 4, error.find(' ', at + 1) - at + 4, "a line of streams.hpp");
  lesson.say("{}", wrapped(error));
}

void little(Lesson& lesson) {
  lesson.section("Little's law: what must be in flight for all of the memory's bandwidth");
  lesson.say("{:<8}{:>12}{:>12}{:>12}{:>18}{:>18}", "", "latency, ns", "all, KB", "an SM, KB",
             "warps, 4 B loads", "warps, 16 B loads");
  for (const char* chip : {"a100", "h100"}) {
    const Multiprocessors& sm = multiprocessors_of(chip);
    lesson.say("{:<8}{:>12.0f}{:>12.0f}{:>12.2f}{:>18.1f}{:>18.1f}", chip, 1e9 * sm.latency,
               1e-3 * bytes_in_flight(sm) * sm.count, 1e-3 * bytes_in_flight(sm),
               warps_needed(sm, 4), warps_needed(sm, 16));
  }
}

// Kernels by what a block needs: the warps that an H100's SM has room for, and what they can load.
void occupied(Lesson& lesson) {
  lesson.section(
      "Occupancy: blocks that fit on an SM of an H100, and the bandwidth that they reach");
  lesson.say("{:>10}{:>12}{:>12}{:>10}{:>18}{:>14}{:>14}", "threads", "registers", "shared, KiB",
             "warps", "limited by", "4 B, TB/s", "16 B, TB/s");
  const Multiprocessors& h100 = multiprocessors_of("h100");
  for (const BlockNeeds& block :
       {BlockNeeds{256, 0, 32}, {256, 48 * 1024, 40}, {128, 0, 255}, {128, 100 * 1024, 128}}) {
    const Occupancy fits = occupancy(h100, block);
    lesson.say("{:>10}{:>12}{:>12.0f}{:>10}{:>18}{:>14.2f}{:>14.2f}", block.threads,
               block.registers, static_cast<double>(block.shared) / 1024, fits.warps(),
               fits.limit(), 1e-12 * bandwidth_reached(h100, fits.warps(), 4),
               1e-12 * bandwidth_reached(h100, fits.warps(), 16));
  }
}

// Little's law by a run: kernels that load, on two SMs of an H100, in the emulator.
void counted_in_flight(Lesson& lesson) {
  const Multiprocessors& h100 = multiprocessors_of("h100");
  const double sms = 2, needed = sms * bytes_in_flight(h100);
  lesson.section(fmt::format(
      "Bytes in flight, counted in a run on 2 SMs of an H100; the law asks for {:.1f} KB",
      1e-3 * needed));
  lesson.say("{:>10}{:>12}{:>14}{:>14}{:>22}{:>12}", "threads", "shared, KiB", "blocks, an SM",
             "counted, KB", "latency x rate, KB", "bandwidth");
  emulator_options().chip.count = static_cast<int>(sms);
  for (const BlockNeeds& block :
       {BlockNeeds{256}, {256, 48 * 1024}, {128, 48 * 1024}, {128, 100 * 1024}}) {
    const Occupancy fits = occupancy(h100, block);
    const double rate = bandwidth_reached(h100, fits.warps(), 4) * sms / h100.count;
    const double counted = emulator::loads_in_flight(block.threads, block.shared, 4);
    lesson.say("{:>10}{:>12.0f}{:>14}{:>14.2f}{:>22.2f}{:>11.0f}%", block.threads,
               static_cast<double>(block.shared) / 1024, fits.blocks(), 1e-3 * counted,
               1e-3 * h100.latency * rate, 100 * std::min(1.0, counted / needed));
  }
  emulator_options() = {};
}

void toggles(Lesson& lesson) {
  lesson.section("Bits that toggle in a matmul, a multiply-add, and what a model makes of them");
  lesson.say("{:<10}{:>10}{:>10}{:>8}{:>8}{:>14}{:>10}{:>12}", "", "operands", "products", "sums",
             "all", "asks for, W", "clock", "TFLOP/s");
  const PowerModel model;
  for (const DataKind kind : all_data_kinds) {
    const Toggles t = toggles_of(kind, 64);
    lesson.say("{:<10}{:>10.2f}{:>10.2f}{:>8.2f}{:>8.2f}{:>14.0f}{:>10.3f}{:>12.0f}", name(kind),
               t.operands, t.products, t.sums, t.all(), model.demand(t.all()), model.clock(t.all()),
               1e-12 * model.flops(t.all()));
    lesson.number(fmt::format("toggles.{}.tflops", name(kind)), 1e-12 * model.flops(t.all()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t draw = 0, framework = 6000;
  return run_lesson_without_ranks(
      argc, argv, {"06", "Launch overhead", "a host that asks, and a chip that waits to be asked"},
      [&](Lesson& lesson) {
        Host host;
        host.framework = 1e-9 * static_cast<double>(framework);
        if (draw != 0) {
          std::ofstream("launch_overhead.svg") << launch_svg();
          std::ofstream("two_buffers.svg") << buffers_svg();
          lesson.say("drawn in launch_overhead.svg and two_buffers.svg");
        }
        two_timelines(lesson, host);
        sizes(lesson, host);
        steps(lesson, host);
        fewer(lesson, host);
        losses(lesson, host);
        copies(lesson, host);
        real_streams(lesson);
        little(lesson);
        occupied(lesson);
        counted_in_flight(lesson);
        toggles(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 06");
      },
      {{"draw", "1: write launch_overhead.svg and two_buffers.svg into this folder", &draw, 0, 1},
       {"framework", "nanoseconds of the host an op, before its launch", &framework, 0, 1000000}});
}
