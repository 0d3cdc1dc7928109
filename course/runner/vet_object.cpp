#include <cxxabi.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>

#include "runner/call_graph.hpp"
#include "runner/grade.hpp"
#include "runner/vet.hpp"

namespace runner {
namespace {

constexpr double nm_seconds = 60;
constexpr long size_of_streams = 0x52;   // bytes of code that <iostream> runs before main()
constexpr long most_symbols = 64 << 20;  // bytes of nm's list

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return text == nullptr ? name : text.get();
}

// The names of a mangled symbol's nesting: _ZNK5yotta6Ledger5resetEv -> yotta, Ledger, reset. Of a
// virtual table, a guard or what is local to a function too.
std::vector<std::string> nesting(const std::string& symbol) {
  std::vector<std::string> names;
  if (!symbol.starts_with("_Z")) return names;
  size_t at = 2;
  for (const char* const prefix : {"TV", "TT", "TI", "TS", "GV", "GR", "TH", "TW"})
    if (symbol.compare(at, 2, prefix) == 0) at += 2;
  while (at < symbol.size() && symbol[at] == 'Z') ++at;
  if (at >= symbol.size() || symbol[at] != 'N') return names;
  for (++at; at < symbol.size() && std::string("rVKRO").find(symbol[at]) != std::string::npos;)
    ++at;
  while (at < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[at])) != 0) {
    size_t digits = 0;
    const size_t size = std::stoul(symbol.substr(at, 9), &digits);
    names.push_back(symbol.substr(at + digits, size));
    at += digits + size;
  }
  return names;
}

bool begins(const std::vector<std::string>& names, std::initializer_list<const char*> with) {
  return names.size() >= with.size() && std::equal(with.begin(), with.end(), names.begin());
}

// yotta, Ddp, finish -> "Ddp::finish", below the first name.
std::string path_below(const std::vector<std::string>& names, size_t first) {
  std::string path;
  for (size_t i = first; i < names.size(); ++i) path += (path.empty() ? "" : "::") + names[i];
  return path;
}

// What C and its compilers give a function that computes and prints.
const std::set<std::string>& known_calls() {
  static const std::set<std::string> known = [] {
    std::set<std::string> names;
    const char* const plain =
        "memcpy memmove memset memcmp memchr memmem bcmp strlen strnlen strcmp strncmp strcpy "
        "strncpy strcat strncat strchr strrchr strstr strpbrk strspn strcspn strdup strtol strtoll "
        "strtoul strtoull strtod strtof strtold atoi atol atoll atof abs labs llabs div ldiv lldiv "
        "malloc calloc realloc free aligned_alloc posix_memalign qsort bsearch rand srand rand_r "
        "abort printf fprintf sprintf snprintf vprintf vfprintf vsnprintf puts fputs putchar "
        "fputc putc fwrite fflush stdout stderr sscanf perror strerror time clock clock_gettime "
        "gettimeofday localtime gmtime strftime difftime isalpha isdigit isalnum isspace isupper "
        "islower ispunct isprint isxdigit tolower toupper errno sched_yield pthread_mutex_lock "
        "pthread_mutex_unlock pthread_mutex_trylock pthread_mutex_init pthread_mutex_destroy "
        "pthread_once __once_proxy pthread_cond_clockwait pthread_cond_timedwait pthread_self "
        "pthread_rwlock_rdlock pthread_rwlock_wrlock "
        "pthread_rwlock_unlock pthread_cond_signal pthread_cond_broadcast __assert_fail "
        "__errno_location __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc "
        "__isoc99_sscanf __isoc23_sscanf __isoc23_strtol __isoc23_strtoul __isoc23_strtoll "
        "__isoc23_strtoull __stack_chk_fail __dso_handle __gxx_personality_v0 __tls_get_addr "
        "__libc_single_threaded __gmon_start__ _GLOBAL_OFFSET_TABLE_ _Unwind_Resume "
        "__extendhfsf2 __truncsfhf2 __truncdfhf2 __extendbfsf2 __truncsfbf2 __truncdfbf2 __mulsc3 "
        "__muldc3 __divsc3 __divdc3 __multi3 __divti3 __udivti3 __modti3 __umodti3 __popcountdi2 "
        "__dynamic_cast wcslen wmemcpy wmemmove wmemset wmemchr wmemcmp "
        "__floattidf __floatuntidf __fixdfti __fixunsdfti __clzti2 __ctzti2";
    const char* const math =
        "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 "
        "exp10 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint "
        "llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward "
        "pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt tan tanh "
        "tgamma trunc";
    const char* const complex =
        "cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj "
        "cpow cproj creal csin csinh csqrt ctan ctanh";
    std::string name;
    for (std::istringstream all(plain); all >> name;) names.insert(name);
    for (const char* const functions : {math, complex})
      for (std::istringstream all(functions); all >> name;)
        for (const char* const type : {"", "f", "l"}) names.insert(name + type);
    return names;
  }();
  return known;
}

// Of "__memcpy_chk", which a call becomes with _FORTIFY_SOURCE: "memcpy".
std::string unfortified(const std::string& name) {
  const std::string begins = "__", ends = "_chk";
  const size_t around = begins.size() + ends.size();
  if (name.size() <= around || !name.starts_with(begins) || !name.ends_with(ends)) return name;
  return name.substr(begins.size(), name.size() - around);
}

// Of exceptions, atomics and sanitizers.
bool is_of_compiler(const std::string& name) {
  for (const char* const family : {"__cxa_", "__asan_", "__tsan_", "__ubsan_", "__sanitizer_",
                                   "__aarch64_", "__atomic_", "__clang_call_terminate", "DW.ref."})
    if (name.starts_with(family)) return true;
  return false;
}

// Constructors and destructors change only counts of one's own; const members change none.
bool changes_counts(const std::string& symbol) {
  for (const std::string counts : {"_ZN5yotta6Ledger", "_ZN5yotta11MemoryCount"})
    if (symbol.starts_with(counts) && symbol.compare(counts.size(), 1, "C") != 0 &&
        symbol.compare(counts.size(), 1, "D") != 0)
      return true;
  // What an algorithm without messages counts by; a cast to it needs its type.
  return symbol == "_ZTIN5yotta19SharedMemoryChannelE";
}

// Why a function of C++ may not be called; empty: it may.
std::string why_not_cpp(const std::string& symbol) {
  const auto has = [&](const char* part) { return symbol.find(part) != std::string::npos; };
  if (has("St14basic_ofstream") || has("St14basic_ifstream") || has("St13basic_fstream") ||
      has("St13basic_filebuf") || symbol.starts_with("_ZNSt10filesystem") ||
      symbol.starts_with("_ZNKSt10filesystem"))
    return "a graded function opens no files";
  if (symbol.starts_with("_ZNSt6thread15_M_start_thread"))
    return "a graded function starts no threads";
  if (symbol.starts_with("_ZSt15set_new_handler"))
    return "what runs when memory is short runs on the stack of a case";
  if (changes_counts(symbol)) return "only the library writes what is counted";
  const std::vector<std::string> names = nesting(symbol);
  if (names == std::vector<std::string>{"yotta", "read_text"})
    return "a graded function opens no files";
  if (names == std::vector<std::string>{"yotta", "set_context"})
    return "the ledger, the clock and the rank are the grader's to set";
  return "";
}

class ObjectVet {
 public:
  ObjectVet(const std::vector<Symbol>& reference, const std::set<std::string>& graded,
            const std::set<std::string>& detours)
      : graded_(graded), detours_(detours) {
    for (const Symbol& one : reference) {
      known_.insert(one.name);
      const std::vector<std::string> names = nesting(one.name);
      if (begins(names, {"yotta", "student"}) && names.back() != every_name)
        graded_.insert(path_below(names, 2));
    }
    size_before_main_ = before_main(reference);
  }

  std::string why_not(const Symbol& symbol) const {
    if (known_.count(symbol.name) > 0) return "";
    const bool is_cpp = symbol.name.starts_with("_Z");
    const bool local = std::islower(static_cast<unsigned char>(symbol.kind)) != 0 &&
                       symbol.kind != 'w' && symbol.kind != 'v' && symbol.kind != 'u';
    const bool undefined = symbol.kind == 'U' || symbol.kind == 'w' || symbol.kind == 'v';
    const std::vector<std::string> names = nesting(symbol.name);
    if (begins(names, {"yotta", "student"}) || local) return "";
    if (begins(names, {"yotta"}) && is_graded(path_below(names, 1), graded_))
      return fmt::format("it uses {}, which this exercise is about: write your own",
                         demangled(symbol.name));
    if (begins(names, {"yotta"}) && detours_.count(symbol.name) > 0)
      return fmt::format("it uses {}, which calls what this exercise is about: write your own",
                         demangled(symbol.name));
    if (is_of_compiler(symbol.name)) return "";
    if (!is_cpp && undefined)
      return known_calls().count(symbol.name) + known_calls().count(unfortified(symbol.name)) > 0
                 ? ""
                 : fmt::format(
                       "it calls {}: of C a graded function may call what computes, "
                       "copies and prints",
                       symbol.name);
    if (const std::string why = why_not_cpp(symbol.name); !why.empty())
      return fmt::format("it uses {}: {}", demangled(symbol.name), why);
    const bool weak = symbol.kind == 'W' || symbol.kind == 'V' || symbol.kind == 'u';
    if (undefined || (is_cpp && weak)) return "";
    return fmt::format("it defines {}, which is not its own", demangled(symbol.name));
  }

  bool runs_before_main(const std::vector<Symbol>& object) const {
    const auto stream = [](const Symbol& one) { return one.name == "_ZStL8__ioinit"; };
    const bool has_streams = std::any_of(object.begin(), object.end(), stream);
    const long more = has_streams && known_.count("_ZStL8__ioinit") == 0 ? size_of_streams : 0;
    return before_main(object) > size_before_main_ + more;
  }

 private:
  // Bytes of code that initialise global objects. Of two references each function counts once, at
  // its largest.
  static long before_main(const std::vector<Symbol>& object) {
    std::map<std::string, long> sizes;
    for (const Symbol& one : object)
      if (one.name.find("__static_initialization_and_destruction") != std::string::npos ||
          one.name.find("__cxx_global_") != std::string::npos)
        sizes[one.name] = std::max(sizes[one.name], one.size);
    long bytes = 0;
    for (const auto& [name, size] : sizes) bytes += size;
    return bytes;
  }

  std::set<std::string> known_;
  std::set<std::string> graded_;
  const std::set<std::string>& detours_;
  long size_before_main_ = 0;
};

}  // namespace

std::vector<Symbol> symbols_of_list(const std::string& listed) {
  std::vector<Symbol> symbols;
  for (const std::string& line : lines_of(listed)) {
    std::istringstream words(line);
    Symbol symbol;
    std::string value, size;
    if (!(words >> symbol.name >> symbol.kind)) continue;
    if (words >> value >> size) symbol.size = std::strtol(size.c_str(), nullptr, 16);
    symbols.push_back(symbol);
  }
  return symbols;
}

std::vector<Symbol> symbols_of(const std::string& object) {
  const Ending ending = run_limited({"nm", "-P", object}, nm_seconds, most_symbols);
  if (!ending.well())
    throw CouldNotGrade(fmt::format(
        "nm cannot list what {} calls; it is part of binutils, as the linker is. It said:\n{}",
        object, ending.output));
  return symbols_of_list(ending.output);
}

std::set<std::string> detours_to(const std::set<std::string>& parts,
                                 const std::vector<std::string>& archives) {
  return symbols_leading_to(archives, [&](const std::string& symbol) {
    const std::vector<std::string> names = nesting(symbol);
    return begins(names, {"yotta"}) && is_graded(path_below(names, 1), parts);
  });
}

bool calls_more_of_library(const std::vector<Symbol>& object,
                           const std::vector<Symbol>& reference) {
  std::set<std::string> known;
  for (const Symbol& one : reference) known.insert(one.name);
  return std::any_of(object.begin(), object.end(), [&](const Symbol& one) {
    const std::vector<std::string> names = nesting(one.name);
    return begins(names, {"yotta"}) && !begins(names, {"yotta", "student"}) &&
           known.count(one.name) == 0;
  });
}

std::vector<Refusal> vet_object(const std::vector<Symbol>& object,
                                const std::vector<Symbol>& reference,
                                const std::set<std::string>& graded,
                                const std::set<std::string>& detours) {
  const ObjectVet vet(reference, graded, detours);
  std::vector<Refusal> refusals;
  std::set<std::string> reasons;  // one call says enough of each
  for (const Symbol& symbol : object) {
    const std::string why = vet.why_not(symbol);
    const std::string reason = why.substr(std::min(why.size(), why.rfind(": ")));
    const bool known = symbol.name.starts_with("_Z") && !reasons.insert(reason).second;
    if (!why.empty() && !known) refusals.push_back({0, why});
  }
  if (vet.runs_before_main(object))
    refusals.push_back({0,
                        "a global variable of your file is computed before main(): make it "
                        "constexpr, or put it into a function"});
  return refusals;
}

}  // namespace runner
