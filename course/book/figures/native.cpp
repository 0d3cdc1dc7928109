// The figures' data on this machine: a request a line, an answer a line.
#include <fmt/core.h>

#include <exception>
#include <iostream>

#include "course/book/figures/figure.hpp"

int main() {
  for (std::string request; std::getline(std::cin, request);) try {
      std::cout << book::answer(request) << '\n';
    } catch (const std::exception& error) {
      std::cout << "{\"error\":\"" << error.what() << "\"}\n";
    }
}
