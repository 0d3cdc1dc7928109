// One solution of exercise 15 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

// A unit of its own, or one of an Fsdp's.
class ThisUnit : public exercise::AnyUnit {
 public:
  explicit ThisUnit(student::FsdpUnit& unit) : unit_(unit) {}
  explicit ThisUnit(std::unique_ptr<student::FsdpUnit> own) : own_(std::move(own)), unit_(*own_) {}
  const std::vector<yotta::ParameterShard>& shards() const override { return unit_.shards(); }
  bool is_gathered() const override { return unit_.is_gathered(); }
  void prefetch() override {
    exercise::on_own_stack([&] { unit_.prefetch(); });
  }
  void unshard() override {
    exercise::on_own_stack([&] { unit_.unshard(); });
  }
  void reshard() override {
    exercise::on_own_stack([&] { unit_.reshard(); });
  }
  void open_gradients() override {
    exercise::on_own_stack([&] { unit_.open_gradients(); });
  }
  void reduce() override {
    exercise::on_own_stack([&] { unit_.reduce(); });
  }
  void finish_reduce() override {
    exercise::on_own_stack([&] { unit_.finish_reduce(); });
  }

 private:
  std::unique_ptr<student::FsdpUnit> own_;
  student::FsdpUnit& unit_;
};

class ThisFsdp : public exercise::AnyFsdp {
 public:
  ThisFsdp(yotta::Layers model, yotta::Communicator& comm, const student::FsdpOptions& options)
      : fsdp_(model, comm, options) {
    for (student::FsdpUnit& unit : fsdp_.units()) units_.emplace_back(unit);
  }
  yotta::Layers stack() const override { return fsdp_.stack(); }
  void finish() override {
    exercise::on_own_stack([&] { fsdp_.finish(); });
  }
  std::vector<exercise::AnyUnit*> units() override {
    std::vector<exercise::AnyUnit*> all;
    for (ThisUnit& unit : units_) all.push_back(&unit);
    return all;
  }

 private:
  student::Fsdp fsdp_;
  std::deque<ThisUnit> units_;
};

std::unique_ptr<exercise::AnyUnit> make_unit(const std::vector<yotta::ParameterPtr>& parameters,
                                             yotta::Communicator& comm,
                                             std::optional<yotta::DType> gathered) {
  return std::make_unique<ThisUnit>(
      std::make_unique<student::FsdpUnit>(parameters, comm, gathered));
}

std::unique_ptr<exercise::AnyFsdp> make_fsdp(yotta::Layers model, yotta::Communicator& comm,
                                             exercise::FsdpChoices choices) {
  student::FsdpOptions options;
  options.prefetch = choices.prefetch;
  options.keep_last = choices.keep_last;
  options.gathered = choices.gathered;
  return std::make_unique<ThisFsdp>(model, comm, options);
}

}  // namespace

const exercise::Solution exercise::solution = {make_unit, make_fsdp};
