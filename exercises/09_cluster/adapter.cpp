// One solution of exercise 09 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::Cluster own(const exercise::Machine& machine) {
  student::Cluster made{"this machine", yotta::chip_named("h100"), {}, machine.torus};
  for (const auto& [name, chips, alpha, beta] : machine.levels)
    made.levels.push_back({name, chips, alpha, beta});
  return made;
}
exercise::Machine plain(const student::Cluster& cluster) {
  exercise::Machine made{{}, cluster.torus};
  for (const auto& [name, chips, alpha, beta] : cluster.levels)
    made.levels.push_back({name, chips, alpha, beta});
  return made;
}

double seconds(double alpha, double beta, double bytes) {
  return student::Link{alpha, beta}.seconds(bytes);
}
int torus_hops(const std::vector<int>& axes, int from, int to) {
  return student::torus_hops(axes, from, to);
}
exercise::Link link(const exercise::Machine& machine, int from, int to) {
  const student::Link found = own(machine).link(from, to);
  return {found.alpha, found.beta, found.level};
}
exercise::Machine switched(const yotta::Chip& chip, int count) {
  return plain(student::switched(chip, count));
}
exercise::Machine llama3_24k() { return plain(student::llama3_24k()); }
std::vector<int> nearly_cubic(int count, int axes) { return student::nearly_cubic(count, axes); }
double ring(const exercise::Machine& machine, const std::vector<int>& chips, double bytes) {
  return student::ring_all_gather_seconds(own(machine), chips, bytes);
}

}  // namespace

const exercise::Solution exercise::solution = {seconds,    torus_hops,   link, switched,
                                               llama3_24k, nearly_cubic, ring};
