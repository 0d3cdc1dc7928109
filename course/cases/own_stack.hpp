// A student's function runs on a stack of its own. On the case's stack lie values that it is to
// compute, and who walks up the stack from a variable of his own would find them:
//
//     the case's stack               the function's stack
//     right = 3 / 7.0                ┌──────────────────────┐ nobody may touch this page
//     found = solution.bubble(l)     │ a copy of l          │
//         │                          │ bubble_by_hand(l)    │
//         └── on_own_stack ────────► │ ...                  │
//                                    └──────────────────────┘ nor this one
//
//     struct Solution {
//       Call<double(const Layout& l)> bubble;       in place of double (*bubble)(const Layout& l)
//     };
//
// Nothing on that stack names the other one. Arguments are copied to it; those stay where they are
// that the function may change, or that cannot be copied.
#pragma once

#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace exercise {

// Runs body() on another stack, while crossing() is `what`. No exception may leave it.
void on_own_stack(void (*body)(), void* what);
// What a call brings to the other stack, and takes back from there.
void* crossing();

// What body() returns or throws, on a stack of its own.
template <class Body>
auto on_own_stack(Body body) {
  using Result = decltype(body());
  struct Crossing {
    Body body;
    std::optional<std::conditional_t<std::is_void_v<Result>, bool, Result>> result = {};
    std::exception_ptr error = {};

    static Crossing& current() { return *static_cast<Crossing*>(crossing()); }
    // A function of its own, so that no address stays above what runs next.
    static Body taken() { return std::move(current().body); }
    static void run() {
      try {
        Body own = taken();
        if constexpr (std::is_void_v<Result>) {
          own();
        } else {
          Result result = own();
          current().result.emplace(std::move(result));
        }
      } catch (...) {
        current().error = std::current_exception();
      }
    }
  } call{std::move(body)};
  on_own_stack(Crossing::run, &call);
  if (call.error != nullptr) std::rethrow_exception(call.error);
  if constexpr (!std::is_void_v<Result>) return std::move(*call.result);
}

// Containers say that they can be copied, whatever they hold.
template <class T>
inline constexpr bool can_be_copied = std::is_copy_constructible_v<T> && !std::is_polymorphic_v<T>;
template <class T>
requires requires { typename T::value_type; }
inline constexpr bool can_be_copied<T> =
    std::is_copy_constructible_v<T> && can_be_copied<typename T::value_type>;

template <class Signature>
class Call;

template <class Result, class... Args>
class Call<Result(Args...)> {
 public:
  using Function = Result (*)(Args...);
  constexpr Call(Function function) : function_(function) {}

  Result operator()(Args... args) const {
    std::tuple<Own<Args>...> own(std::forward<Args>(args)...);
    return on_own_stack([function = function_, own = std::move(own)]() mutable {
      return std::apply([&](auto&... each) { return function(std::forward<Args>(each)...); }, own);
    });
  }

 private:
  template <class Arg, class Value = std::remove_cvref_t<Arg>>
  using Own =
      std::conditional_t<std::is_same_v<Arg, const Value&> && can_be_copied<Value>, Value, Arg>;
  Function function_;
};

}  // namespace exercise
