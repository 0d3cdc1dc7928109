#include "yotta/model/named_tensor.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("every target takes the value of its name, converted") {
  Tensor a = Tensor::zeros({2}), b = Tensor::zeros({1, 2}, DType::bf16);
  assign_all({{"a", a}, {"b", b}},
             {{"b", Tensor::full({1, 2}, 3)}, {"a", Tensor::full({2}, 1.5, DType::f64)}}, "x");
  CHECK(a.values() == std::vector<double>{1.5, 1.5});
  CHECK(b.values() == std::vector<double>{3, 3});
}

TEST_CASE("one wrong tensor, and none is taken") {
  Tensor a = Tensor::full({2}, 7), b = Tensor::full({1, 2}, 7);
  const Tensor good = Tensor::zeros({2}), other = Tensor::zeros({1, 2});
  const auto assigning = [&](const std::vector<NamedTensor>& values) {
    return message_of([&] { assign_all({{"a", a}, {"b", b}}, values, "the file"); });
  };
  CHECK(contains(assigning({{"a", good}}), "the file lacks 1 tensors of this model (b)"));
  CHECK(contains(assigning({{"a", good}, {"c", other}}), "(b) and holds others (c)"));
  CHECK(contains(assigning({{"a", good}, {"b", other}, {"c", other}}),
                 "the file holds 1 tensors that this model does not have (c)"));
  CHECK(contains(assigning({{"a", good}, {"b", good}}),
                 "the file: 'b' is (2) f32, expected (1, 2) f32"));
  CHECK(contains(assigning({{"a", good}, {"b", Tensor::zeros({1, 2}, DType::i32)}}),
                 "'b' is (1, 2) i32, expected (1, 2) f32"));
  CHECK(a.values() == std::vector<double>{7, 7});
  CHECK(b.values() == std::vector<double>{7, 7});
}

TEST_CASE("long lists of names are cut") {
  CHECK(list_names({}).empty());
  CHECK(list_names({"a", "b", "c"}) == "a, b, c");
  CHECK(list_names({"a", "b", "c", "d", "e"}) == "a, b, c and 2 more");
}

TEST_CASE("all_finite sees NaN and infinity in every float type, and nothing in ids or on meta") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    CHECK(all_finite(Tensor::full({5}, 1, dtype)));
    CHECK_FALSE(all_finite(Tensor::full({5}, NAN, dtype)));
    CHECK_FALSE(all_finite(Tensor::full({5}, -INFINITY, dtype)));
  }
  CHECK(all_finite(Tensor::full({5}, 1, DType::i32)));
  CHECK(all_finite(Tensor()));
  const DeviceScope meta(Device::meta);
  CHECK(all_finite(Tensor::zeros({5})));
}
