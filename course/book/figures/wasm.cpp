// The figures in a browser: what a page calls, and what C++ expects of a system that is not there.
//
// A page writes its request into request_room() and calls ask(); the answer is text. An exception
// cannot be caught here, as its run time is in no package: its message is kept, and the machine
// stops. The page reads said_last(), and starts the machine again.
#include <cstdlib>
#include <exception>
#include <string>

#include "course/book/figures/figure.hpp"

namespace {
char room[4096];
std::string text;
}  // namespace

#define FOR_PAGES(name) __attribute__((export_name(#name)))

extern "C" {

FOR_PAGES(request_room) char* request_room() { return room; }
FOR_PAGES(said_last) const char* said_last() { return text.c_str(); }
FOR_PAGES(ask) const char* ask() {
  text = book::answer(room);
  return text.c_str();
}

void* __cxa_allocate_exception(size_t size) { return std::malloc(size); }
// All that the library throws is a std::exception first of all.
[[noreturn]] void __cxa_throw(void* thrown, void*, void*) {
  text = static_cast<std::exception*>(thrown)->what();
  __builtin_trap();
}
}
