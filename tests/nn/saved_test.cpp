#include "yotta/nn/saved.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("tensors are kept, read, taken and dropped by name") {
  Saved saved;
  const Tensor x = Tensor::full({2, 3}, 7);
  saved.keep("x", x);
  CHECK(saved.get("x").shares_memory(x));
  CHECK(saved.has("x"));
  CHECK_FALSE(saved.has("y"));
  saved.keep("x", Tensor::full({4}, 1));
  CHECK(saved.get("x").numel() == 4);
  CHECK(saved.take("x").item({0}) == 1);
  CHECK_FALSE(saved.has("x"));
  CHECK(saved.empty());
}

TEST_CASE("children are found again, and know the place of the microbatch") {
  Saved saved(BatchPosition{5, 7, 16, 32});
  Saved& q = saved.child("layers.0").child("q");
  q.keep("x", Tensor::zeros({3}));
  saved.child("layers.1");  // one more child does not move the first
  CHECK(&saved.child("layers.0").child("q") == &q);
  CHECK(q.position().step == 7);
  CHECK(q.position().first_sequence == 16);
  CHECK(q.name() == "q");
}

TEST_CASE("bytes count a shared buffer once, at its largest view, also on meta") {
  for (const Device device : {Device::cpu, Device::meta}) {
    const DeviceScope scope(device);
    Saved saved;
    const Tensor x = Tensor::zeros({4, 8});
    saved.child("q").keep("x", x.rows(0, 2));
    saved.child("k").keep("x", x);
    saved.child("v").keep("x", x.reshape({32}));
    saved.keep("rstd", Tensor::zeros({4}));
    CHECK(saved.bytes() == 4 * 8 * 4 + 4 * 4);
    CHECK(saved.child("q").bytes() == 2 * 8 * 4);
  }
}

TEST_CASE("clear gives the memory back at once") {
  RankContext rank;
  const ContextScope scope(rank);
  Saved saved;
  saved.child("a").keep("x", Tensor::zeros({256}));
  CHECK(rank.ledger.memory()->live() == 1024);
  saved.clear();
  CHECK(rank.ledger.memory()->live() == 0);
  CHECK(saved.bytes() == 0);
}

TEST_CASE("each visits the whole tree") {
  Saved saved({}, "model");
  saved.child("a").child("b");
  saved.child("c");
  std::string seen;
  saved.each([&](Saved& one) { seen += one.name() + " "; });
  CHECK(seen == "model a b c ");
}

TEST_CASE("a missing tensor is reported with the layer, its name and what may have happened") {
  Saved saved;
  saved.child("layers.3.mlp").keep("x", Tensor::zeros({1}));
  saved.child("layers.3.mlp").keep("h", Tensor::zeros({1}));
  const std::string message = message_of([&] { (void)saved.child("layers.3.mlp").get("dy"); });
  CHECK(message.find("saved_test.cpp") != std::string::npos);
  CHECK(message.find("'layers.3.mlp' holds no 'dy', but 'x', 'h': run backward_input") !=
        std::string::npos);
  const std::string none = message_of([&] { (void)saved.get("x"); });
  CHECK(none.find("holds no 'x', but nothing: run forward") != std::string::npos);
}
