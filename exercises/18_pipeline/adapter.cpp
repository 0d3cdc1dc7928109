// One solution of exercise 18 (the student's, the library's or a wrong one) as the graded cases see
// it. A solution has actions and schedules of its own type; the cases have the library's.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::PipelineAction theirs(const yotta::PipelineAction& a) {
  return {a.stage, static_cast<student::PipelineOp>(a.op), a.microbatch, a.with_next};
}
yotta::PipelineActions ours(const student::PipelineActions& actions) {
  yotta::PipelineActions all;
  for (const student::PipelineAction& a : actions)
    all.push_back({a.stage, static_cast<yotta::PipelineOp>(a.op), a.microbatch, a.with_next});
  return all;
}
student::PipelineActions theirs(const yotta::PipelineActions& actions) {
  student::PipelineActions all;
  for (const yotta::PipelineAction& a : actions) all.push_back(theirs(a));
  return all;
}
student::PipelineSchedule theirs(const yotta::PipelineSchedule& schedule) {
  student::PipelineSchedule made{
      schedule.name, schedule.ranks, schedule.stages, schedule.microbatches, {}};
  for (const yotta::PipelineActions& actions : schedule.by_rank)
    made.by_rank.push_back(theirs(actions));
  made.placement = static_cast<student::Placement>(schedule.placement);
  made.routes = schedule.routes;
  return made;
}

class TheseMessages : public exercise::AnyMessages {
 public:
  TheseMessages(const yotta::Communicator& comm, const yotta::PipelineSchedule& schedule)
      : schedule_(theirs(schedule)), messages_(comm, schedule_) {}
  std::pair<int, int> route(const yotta::PipelineAction& a) const override {
    const auto found = messages_.route(theirs(a));
    return {found.from, found.to};
  }
  yotta::Tensor receive(const yotta::PipelineAction& a, const yotta::Shape& shape) override {
    return exercise::on_own_stack(
        [=, this] { return messages_.receive(theirs(a), shape, yotta::DType::f64); });
  }
  void send(const yotta::PipelineAction& a, yotta::Tensor made) override {
    exercise::on_own_stack([this, a, made = std::move(made)]() mutable {
      messages_.send(theirs(a), std::move(made));
    });
  }
  void finish() override {
    exercise::on_own_stack([&] { messages_.finish(); });
  }

 private:
  student::PipelineSchedule schedule_;
  student::PipelineMessages messages_;
};

std::unique_ptr<exercise::AnyMessages> make_messages(const yotta::Communicator& comm,
                                                     const yotta::PipelineSchedule& schedule) {
  return std::make_unique<TheseMessages>(comm, schedule);
}
yotta::PipelineActions gpipe(int rank, int p, int64_t m) {
  return ours(student::gpipe_actions(rank, p, m));
}
yotta::PipelineActions one_f_one_b(int rank, int p, int64_t m) {
  return ours(student::one_f_one_b_actions(rank, p, m));
}
int64_t most_in_flight(const yotta::PipelineActions& actions) {
  return student::most_in_flight(theirs(actions));
}
yotta::PipelineActions interleaved(int rank, int p, int64_t m, int v) {
  return ours(student::interleaved_actions(rank, p, m, v));
}

}  // namespace

const exercise::Solution exercise::solution = {gpipe, one_f_one_b, most_in_flight, make_messages,
                                               interleaved};
