// A trace in Chrome's trace event format, which Perfetto opens (ui.perfetto.dev, "Open trace file").
//
//     rank   -> process            X   a complete event: ts, dur in microseconds
//     lane   -> thread             s,f an arrow from a message's send to its receive
//                                  M   names of processes and threads
//
// What arrives on a communicator's lane is a thread of its own, since events of a thread must not overlap.
// Reference: "Trace Event Format", Google, 2016.
#pragma once

#include <cmath>

#include "yotta/machine/timeline.hpp"

namespace yotta {

// Text inside the quotes of a JSON string.
inline std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

namespace detail {
// Seconds as whole nanoseconds, the finest that viewers know; so two events that touch never overlap.
inline int64_t nanoseconds(double time) { return std::llround(time * 1e9); }
// Nanoseconds as the format's microseconds.
inline std::string json_time(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// Threads of a process, in the order in which they are shown.
constexpr int json_thread(const TraceEvent& event) {
  return 2 * lane_order(event.lane) + (event.lane < 0 && event.kind == EventKind::recv ? 1 : 0);
}

inline void add_json_names(std::string& json, const Trace& trace) {
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    json += fmt::format(
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank "
        "{0}\"}}}},\n",
        rank);
    std::map<int, std::string> threads;
    for (const TraceEvent& event : trace.ranks[rank]) {
      const int thread = json_thread(event);
      if (!threads.contains(thread))
        threads[thread] = lane_name(trace, static_cast<int>(rank), event.lane) +
                          (thread % 2 == 1 ? ", arriving" : "");
    }
    for (const auto& [thread, name] : threads) {
      json += fmt::format(
          "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{0},\"tid\":{1},\"args\":{{\"name\":\"{"
          "2}\"}}}},\n"
          "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{0},\"tid\":{1},\"args\":{{\"sort_"
          "index\":{1}}}}},\n",
          rank, thread, json_escaped(name));
    }
  }
}
}  // namespace detail

// The whole trace; times in microseconds.
inline std::string timeline_json(const Trace& trace) {
  std::string json = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  detail::add_json_names(json, trace);
  int64_t arrow = 0;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank)
    for (const TraceEvent& event : trace.ranks[rank]) {
      const int thread = detail::json_thread(event);
      const int64_t begin = detail::nanoseconds(event.begin), end = detail::nanoseconds(event.end);
      json += fmt::format(
          "{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},"
          "\"dur\":{},"
          "\"args\":{{\"bytes\":{},\"flops\":{:.17g}{}}}}},\n",
          json_escaped(event.name), name(event.kind), rank, thread, detail::json_time(begin),
          detail::json_time(end - begin), event.bytes, event.flops,
          event.peer >= 0 ? fmt::format(",\"peer\":\"{}\"", peer_name(event.peer)) : "");
      if (event.kind != EventKind::recv || event.cause.rank < 0) continue;
      const TraceEvent& sent = trace.at(event.cause);
      if (sent.kind != EventKind::send) continue;
      json += fmt::format(
          "{{\"ph\":\"s\",\"id\":{0},\"name\":\"message\",\"cat\":\"message\",\"pid\":{1},\"tid\":{"
          "2},\"ts\":{3}}},\n"
          "{{\"ph\":\"f\",\"bp\":\"e\",\"id\":{0},\"name\":\"message\",\"cat\":\"message\",\"pid\":"
          "{4},\"tid\":{5},\"ts\":{6}}},\n",
          arrow++, event.cause.rank, detail::json_thread(sent),
          detail::json_time(detail::nanoseconds(sent.begin)), rank, thread, detail::json_time(end));
    }
  json.erase(json.rfind(','));  // JSON has no comma at the end
  return json + "\n]}\n";
}

}  // namespace yotta
