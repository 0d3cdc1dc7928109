#include "yotta/device/unchanged/source_step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using yotta::emulator_source;

namespace {

// What a launch becomes.
std::string launched(const std::string& kernel, const std::string& shape,
                     const std::string& parameters = "auto... yotta_0",
                     const std::string& call = "yotta_0...") {
  return "::yotta::emulator::launch_call([=](" + parameters + ") { " + kernel + "(" + call +
         "); }, ::yotta::emulator::LaunchShape(" + shape + "))";
}
// The same where the kernel is what an expression says at that time.
std::string launched_value(const std::string& kernel, const std::string& shape) {
  return "::yotta::emulator::launch_call([yotta_kernel = " + kernel +
         "](auto... yotta_0) { yotta_kernel(yotta_0...); }, "
         "::yotta::emulator::LaunchShape(" +
         shape + "))";
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a launch becomes a call, whatever names the kernel") {
  const auto check = [](const std::string& kernel, const std::string& shape = "4, 256") {
    const std::string before = "{ ", after = "(x, n); }";
    CHECK(emulator_source(before + kernel + "<<<" + shape + ">>>" + after) ==
          before + launched(kernel, shape) + after);
  };
  check("scale");
  check("scale<float>");
  check("scale<float, (4 > 3)>");
  check("scale<Pair<int, Pair<int, int>>>");
  check("a::b::scale<4>");
  check("::scale");
  check("Traits<T>::template scale<T>");
  check("Traits<T>::kernel");
  check("scale", "dim3(n >> 1, (m + 7) / 8), {32, 4}, n * sizeof(float), stream");
  CHECK(emulator_source("return scale<<<1, 2>>>(x);") ==
        "return " + launched("scale", "1, 2") + "(x);");
  CHECK(emulator_source("if (go) scale<<<1, 2>>>(x); else other<<<3, 4>>>(y);") ==
        "if (go) " + launched("scale", "1, 2") + "(x); else " + launched("other", "3, 4") + "(y);");
}

TEST_CASE("a kernel that an expression names is the one that it names at the launch") {
  for (const std::string kernel :
       {"kernels[i + 1]", "table.kernel", "self->kernel", "(*kernel)", "choose(3)"})
    CHECK(emulator_source("{ " + kernel + "<<<4, 256>>>(x, n); }") ==
          "{ " + launched_value(kernel, "4, 256") + "(x, n); }");
  const std::string launch = " void run() { k<<<1, 2>>>(x); }",
                    value = " void run() { " + launched_value("k", "1, 2") + "(x); }",
                    name = " void run() { " + launched("k", "1, 2") + "(x); }";
  for (const std::string variable : {"Kernel k;", "void (*k)(int*) = f;", "Kernel<int> k = f;"}) {
    CHECK(emulator_source(variable + launch) == variable + value);
    CHECK(emulator_source("struct S {" + launch + variable + "};") ==
          "struct S {" + value + variable + "};");
  }
  CHECK(has(emulator_source("__global__ void k(int* x); void f() { int k = 3; }" + launch), name));
  const std::string macro = "#define NAME(x) x##_kernel\n";
  CHECK(emulator_source(macro + "NAME(k)<<<1, 2>>>(x);") ==
        macro + launched("NAME(k)", "1, 2") + "(x);");
}

TEST_CASE("0 and NULL among the arguments of a launch stay null pointers") {
  const auto check = [](const std::string& arguments, const std::string& parameters,
                        const std::string& call, const std::string& left) {
    CHECK(emulator_source("k<<<1, 2>>>(" + arguments + ")") ==
          launched("k", "1, 2", parameters, call) + "(" + left + ")");
  };
  check("x, 0", "auto... yotta_0", "yotta_0..., 0", "x ");
  check("x, y, 0", "auto... yotta_0", "yotta_0..., 0", "x, y ");
  check("0, x", "auto... yotta_1", "0, yotta_1...", " x");
  check("0,0,x,y", "auto... yotta_2", "0, 0, yotta_2...", "x,y");
  check("x,0,y", "auto yotta_0, auto... yotta_2", "yotta_0, 0, yotta_2...", "x,y");
  check("x,y,0,z,0", "auto yotta_0, auto yotta_1, auto... yotta_3",
        "yotta_0, yotta_1, 0, yotta_3..., 0", "x,y,z");
  check("0", "", "0", "");
  check("NULL,f(NULL),NULL", "auto... yotta_1", "NULL, yotta_1..., NULL", "f(NULL)");
  check("f<1,0>(x),0", "auto... yotta_0", "yotta_0..., 0", "f<1,0>(x)");
  check("a<b,0,c>d", "auto yotta_0, auto... yotta_2", "yotta_0, 0, yotta_2...", "a<b,c>d");
  for (const std::string same : {"x, 0 + 1", "x, -0", "f(0)", "S{0}", "x, more...", ""})
    CHECK(emulator_source("k<<<1, 2>>>(" + same + ")") == launched("k", "1, 2") + "(" + same + ")");
}

TEST_CASE("an argument that stands for several leaves 0 a null pointer where it can") {
  const auto check = [](const std::string& arguments, const std::string& parameters,
                        const std::string& call, const std::string& left) {
    const std::string macro = "#define RUN(k, ...) ";
    CHECK(emulator_source(macro + "k<<<1, 2>>>(" + arguments + ")\n") ==
          macro + launched("k", "1, 2", parameters, call) + "(" + left + ")\n");
  };
  check("__VA_ARGS__, 0", "auto... yotta_0", "yotta_0..., 0", "__VA_ARGS__ ");
  check("0, more...", "auto... yotta_1", "0, yotta_1...", " more...");
  check("0, ##__VA_ARGS__", "auto... yotta_1", "0, yotta_1...", " __VA_ARGS__");
  check("x, 0, ##__VA_ARGS__", "auto yotta_0, auto... yotta_2", "yotta_0, 0, yotta_2...",
        "x , ##__VA_ARGS__");
  check("f(__VA_ARGS__), 0, x", "auto yotta_0, auto... yotta_2", "yotta_0, 0, yotta_2...",
        "f(__VA_ARGS__) , x");
  for (const std::string same : {"__VA_ARGS__, 0, x", "more..., 0, x"})
    check(same, "auto... yotta_0", "yotta_0...", same);
}

TEST_CASE("what only looks like a launch stays as it is") {
  for (const std::string text :
       {"// k<<<1, 2>>>(x);\n", "/* k<<<1, 2>>>(x); */", "const char* s = \"k<<<1, 2>>>(x)\";",
        "auto s = R\"x(k<<<1, 2>>>(\"y\"))x\";", "char c = '\"'; // k<<<1, 2>>>(x)\n",
        "int n = 1'000 << 2 >> 1;", "Pair<Pair<Pair<int>>> p;", "#if 0 // __noinline__\n#endif\n",
        "#error k<<<1, 2>>>(x)\n", "int my__global__ = 0;"})
    CHECK(emulator_source(text) == text);
}

TEST_CASE("a macro may hold a launch, and its lines stay") {
  const std::string text = "#define RUN(k, n) \\\n  k<<<n, \\\n      32>>>(x)\nint y;\n";
  const std::string result = emulator_source(text);
  CHECK(result == "#define RUN(k, n) \\\n  " + launched("k", "n, \\\n      32") + "(x)\nint y;\n");
}

TEST_CASE("a kernel says where it lies, a declaration does not") {
  const std::string mark = "__global__ __attribute__((noinline))",
                    asked = " if (::yotta::emulator::kernel_is_asked()) return;";
  CHECK(emulator_source("__global__ void k(int* x) { }") ==
        mark + " void k(int* x) {" + asked + " }");
  CHECK(emulator_source("__global__ void k(int* x); void f() {}") ==
        mark + " void k(int* x); void f() {}");
  CHECK(emulator_source("extern \"C\" __global__ void k() {}") ==
        "  " + mark + " void k() {" + asked + "}");
  CHECK(emulator_source("#define KERNEL __global__ void\nKERNEL k() {}\nint f() {}") ==
        "#define KERNEL " + mark + " void\nKERNEL k() {" + asked + "}\nint f() {}");
}

TEST_CASE("a kernel tells its launch bounds and the dimensions of its cluster") {
  const auto asked = [](const std::string& its) {
    return " if (::yotta::emulator::kernel_is_asked(::yotta::emulator::KernelAttributes()" + its +
           ")) return;";
  };
  CHECK(emulator_source("__global__ void __launch_bounds__(256) k(int* x)\n{\n}") ==
        "__global__ __attribute__((noinline)) void __launch_bounds__(256) k(int* x)\n{" +
            asked(".launch_bounds( 256 )") + "\n}");
  CHECK(
      emulator_source("__global__ void __cluster_dims__(n,\n 1) __launch_bounds__(T::m) k() {}") ==
      "__global__ __attribute__((noinline)) void \n __launch_bounds__(T::m) k() {" +
          asked(".cluster_dims( n , 1 ).launch_bounds( T :: m )") + "}");
}

TEST_CASE("a parameter hides the constant that an attribute names") {
  const auto step = [](const std::string& attribute, const std::string& parameters) {
    return emulator_source("__global__ void " + attribute + " k(" + parameters + ") {}");
  };
  CHECK(step("__launch_bounds__(n)", "float* x, int n").ends_with("kernel_is_asked()) return;}"));
  for (const char* other : {"float* x, A<n, 2> y", "float (&x)[n], int m"})
    CHECK(step("__launch_bounds__(n)", other).ends_with(".launch_bounds( n ))) return;}"));
  CHECK(step("__launch_bounds__(T::n)", "int n").ends_with(".launch_bounds( T :: n ))) return;}"));
  CHECK(step("__cluster_dims__(2, n)", "int n = 3").find("{ static_assert(false, ") !=
        std::string::npos);
}

TEST_CASE("dynamic shared memory is a pointer in a function, an object outside") {
  const auto in = [](const std::string& declaration) {
    return emulator_source("void f() { " + declaration + " }");
  };
  const auto pointer = [](const std::string& type) {
    return "void f() { [[maybe_unused]] auto* const s = ::yotta::dynamic_shared<" + type + ">(); }";
  };
  CHECK(in("extern __shared__ float s[];") == pointer("float"));
  CHECK(in("extern __shared__ unsigned char s[];") == pointer("unsigned char"));
  CHECK(in("extern __shared__ __align__(16) float4 s[];") == pointer("float4"));
  CHECK(in("extern __shared__ volatile typename A<T>::type s[];") ==
        pointer("volatile typename A < T > :: type"));
  CHECK(in("extern __shared__ float s[][32];") == pointer("float[32]"));
  CHECK(in("extern __shared__ alignas(alignof(float4)) char s[];") == pointer("char"));
  const std::string outside = "static constexpr ::yotta::emulator::DynamicArray<float> s{};";
  CHECK(emulator_source("extern __shared__ float s[];") == outside);
  CHECK(emulator_source("namespace a::b { extern __shared__ float s[]; }") ==
        "namespace a::b { " + outside + " }");
  CHECK(emulator_source("extern \"C\" { extern __shared__ float s[]; }") ==
        "extern \"C\" { " + outside + " }");
}

TEST_CASE("extern and volatile stand in any order, and one declaration names two arrays") {
  const std::string declared = "static constexpr ::yotta::emulator::DynamicArray<";
  CHECK(emulator_source("extern volatile __shared__ float s[];") ==
        declared + "volatile float> s{};");
  CHECK(emulator_source("volatile extern __shared__ float s[];") ==
        declared + "volatile float> s{};");
  CHECK(emulator_source("__shared__ extern float s[];") == declared + "float> s{};");
  CHECK(emulator_source("extern __shared__ float a[], b[][4];") ==
        declared + "float> a{}; " + declared + "float[4]> b{};");
  CHECK(emulator_source("f(); extern __shared__ int s[4];") == "f(); extern __shared__ int s[4];");
}

TEST_CASE("dynamic shared memory outside of functions is passed on by decayed()") {
  const std::string declared = emulator_source("extern __shared__ char s[];");
  const auto in = [&](const std::string& use) {
    const std::string text =
        emulator_source("extern __shared__ char s[]; void k() { " + use + " }");
    const std::string before = declared + " void k() { ";
    return text.substr(before.size(), text.size() - before.size() - 2);
  };
  const std::string s = "::yotta::emulator::decayed(s)";
  CHECK(in("auto* x = reinterpret_cast<float*>(s);") ==
        "auto* x = reinterpret_cast<float*>(" + s + ");");
  CHECK(in("sum(s, n); sum(n, s);") == "sum(" + s + ", n); sum(n, " + s + ");");
  CHECK(in("g([a, &b] {}, s, c);") == "g([a, &b] {}, " + s + ", c);");
  CHECK(in("char* x = s;") == "char* x = " + s + ";");
  for (const std::string same : {"s[0] = 1;", "a.s;", "int a, s;", "(float*)s;", "&s[4];",
                                 "return s;", "decltype(s) t;", "g([a, s, b] {});"})
    CHECK(in(same) == same);
}

TEST_CASE("of two branches of the preprocessor, one opens what both close") {
  const std::string array = "extern __shared__ float s[];", outside = emulator_source(array),
                    inside = "[[maybe_unused]] auto* const s = ::yotta::dynamic_shared<float>();";
  for (const std::string open :
       {"#if A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n",
        "#if A\nvoid f() {\n#elif B\nvoid f(int) {\n#else\n#error \"no\"\n#endif\n",
        "#if A\n#error \"no\"\n#else\nvoid f() {\n#endif\n",
        "#if A\n#if B\nvoid f() {\n#else\nvoid g() {\n#endif\n#else\nvoid h() {\n#endif\n",
        "void f() {\n#ifdef A\n{\n# else\n{ g();\n#endif\n}"})
    CHECK(emulator_source(open + array + "}" + array) == open + inside + "}" + outside);
  const auto split = [](const std::string& in_else) {
    return "#if A\nvoid f() {\n#else\n" + in_else + " void f() {\n#endif\n}\n";
  };
  CHECK(emulator_source(split(array)) == split(outside));
}

TEST_CASE("a macro opens nothing where it is defined") {
  const std::string array = "extern __shared__ float s[];", macro = "#define BEGIN void f() {\n";
  CHECK(emulator_source(macro + array) == macro + emulator_source(array));
}

TEST_CASE("a macro of several lines keeps its backslashes") {
  const std::string ptx = emulator_source("#define P asm(\"a\" \\\n  \"b\"); \\\n  f()\nint y;\n");
  CHECK(has(ptx, "PTX under nvcc\")\\\n; \\\n  f()\nint y;\n"));
  const std::string array =
      emulator_source("#define S \\\n  extern __shared__ \\\n  float s[];\nint y;\n");
  CHECK(has(array, "s{}\\\n;\nint y;\n"));
}

TEST_CASE("a macro may join a kernel's name") {
  CHECK(emulator_source("#define RUN(name) f(); name##_kernel<<<1, 2>>>(x)\n") ==
        "#define RUN(name) f(); " + launched("name##_kernel", "1, 2") + "(x)\n");
  CHECK(emulator_source("#define RUN(t) n::scale_##t##_of<t><<<1, 2>>>(x)\n") ==
        "#define RUN(t) " + launched("n::scale_##t##_of<t>", "1, 2") + "(x)\n");
}

TEST_CASE("kernels have no linkage of C, also in a block") {
  const std::string result = emulator_source(
      "extern \"C\" { void f(); }\nnamespace n { extern \"C\" { void g() { } __global__ void k() { "
      "} } }");
  CHECK(has(result, "extern \"C\" { void f(); }\nnamespace n { extern \"C++\" { void g()"));
}

TEST_CASE("a macro of an included file may begin a kernel") {
  yotta::SourceNames macros;
  emulator_source("#define KERNEL __global__ void\n", macros);
  CHECK(has(emulator_source("KERNEL k() {}", macros),
            "k() { if (::yotta::emulator::kernel_is_asked"));
  CHECK(emulator_source("KERNEL k() {}") == "KERNEL k() {}");
}

TEST_CASE("words that C++ would read otherwise") {
  CHECK(emulator_source("__shared__ alignas(16) T x[4];") == "__shared__ __align__(16) T x[4];");
  CHECK(emulator_source("static __shared__ int x;") == " __shared__ int x;");
  CHECK(emulator_source("__constant__ static float c[3];") == "__constant__  float c[3];");
  CHECK(emulator_source("static __device__ __constant__ int c;") ==
        " __device__ __constant__ int c;");
  CHECK(emulator_source("static const __constant__ int c = 1;") ==
        " const __constant__ int c = 1;");
  CHECK(
      has(emulator_source("extern __constant__ int c;"), "without extern\"); __constant__ int c;"));
  CHECK(emulator_source("cudaFuncGetAttributes(&its, (const void*)k);") ==
        "cudaFuncGetAttributes(&its, k);");
  CHECK(emulator_source(
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, (void const*)k<1, 2>, 32, 0);") ==
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, k<1, 2>, 32, 0);");
  CHECK(emulator_source("cudaLaunchKernel((void*)k, g, b, (void**)a, f((void*)p));") ==
        "cudaLaunchKernel(k, g, b, (void**)a, f((void*)p));");
  CHECK(emulator_source("__noinline__ int f();") == "__attribute__((noinline)) int f();");
  CHECK(emulator_source("static __device__ __forceinline__ int f();") ==
        "static __device__ inline __attribute__((always_inline)) int f();");
  CHECK(emulator_source("__forceinline__ static inline int f();") ==
        "__attribute__((always_inline)) static inline int f();");
  CHECK(emulator_source("cudaLaunchCooperativeKernel((void*)k<int>, g, b, a);") ==
        "cudaLaunchCooperativeKernel(k<int>, g, b, a);");
  CHECK(emulator_source("cudaFuncSetAttribute(reinterpret_cast<const void*>(k), a, 1);") ==
        "cudaFuncSetAttribute((k), a, 1);");
  CHECK(emulator_source("f((void*)k);") == "f((void*)k);");
}

TEST_CASE("a variable of the host may be called as CUDA's own") {
  CHECK(
      emulator_source("void f() { dim3 blockDim(16), gridDim(n / blockDim.x); g(gridDim); }"
                      "void k() { blockDim.x; }") ==
      "void f() { dim3 yotta_blockDim(16), yotta_gridDim(n / yotta_blockDim.x); g(yotta_gridDim); }"
      "void k() { blockDim.x; }");
  CHECK(emulator_source("void f(dim3 gridDim); void k() { gridDim.x; }") ==
        "void f(dim3 yotta_gridDim); void k() { gridDim.x; }");
  CHECK(emulator_source("void f(dim3 gridDim) { gridDim.x; } void k() { gridDim.x; }") ==
        "void f(dim3 yotta_gridDim) { yotta_gridDim.x; } void k() { gridDim.x; }");
  CHECK(emulator_source("{ { int blockDim = 3; } f(a, blockDim.x); return blockDim.y; }") ==
        "{ { int yotta_blockDim = 3; } f(a, blockDim.x); return blockDim.y; }");
  CHECK(emulator_source("int k() { dim3 a(b, gridDim.x); }") ==
        "int k() { dim3 a(b, gridDim.x); }");
}

TEST_CASE("members may be called as CUDA's own, wherever they are named") {
  const auto with = [](std::string text, const std::string& mark) {
    for (size_t at = 0; (at = text.find('@', at)) != std::string::npos;) text.replace(at, 1, mark);
    return text;
  };
  const auto check = [&](const std::string& text) {
    CHECK(emulator_source(with(text, "")) == with(text, "yotta_"));
  };
  check("struct { dim3 @gridDim; } p; void f() { g(p.@gridDim, gridDim.x); }");
  check("struct P { dim3 @gridDim; }; void f(P* p) { p->@gridDim.x = 1; P q{.@gridDim = 2}; }");
  check(
      "struct P { int f() { return @blockDim; } int @blockDim = 3; }; int k() { return blockDim.x; "
      "}");
  check(
      "class P : Q<int> { P(dim3 @gridDim) : @gridDim(@gridDim) {} dim3 @gridDim; }; int a = "
      "gridDim.x;");
  check(
      "struct P { void run(); dim3 @gridDim; }; void P::run() { f(@gridDim); } int a = gridDim.x;");
  check("template <class T> void k() { g(gridDim.x); }");
  for (const std::string f : {"run", "I::run", "run<int>", "~P", "operator+", "operator()"})
    check("struct P { dim3 @gridDim; }; T P::" + f + "() { f(@gridDim); }");
  for (const std::string f : {"void k(P::I i)", "P::I k()", "P::I<int> k()", "T k(P::f(1))"})
    check("struct P { dim3 @gridDim; }; " + f + " { f(gridDim); }");
}

TEST_CASE("PTX is an error with a hint, and every line stays where it was") {
  const std::string text =
      "void f() {\n  asm volatile(\"mov.u32 %0, %laneid;\"\n    : \"=r\"(x));\n}\n";
  const std::string result = emulator_source(text);
  CHECK(has(result, "static_assert(false, \"the emulator runs no PTX: use"));
  CHECK(std::count(result.begin(), result.end(), '\n') == 4);
  const std::string fence = "asm volatile(\"\" ::: \"memory\");";
  CHECK(emulator_source(fence) == fence);
}

TEST_CASE("includes in quotes are found, others are not") {
  const std::string text =
      "#include <a.h>\n  # include \"b.cuh\" // \"c\"\nchar* s = \"#include\";\n";
  const yotta::QuotedInclude found = yotta::next_quoted_include(text, 0);
  CHECK(text.substr(found.begin, found.end - found.begin) == "b.cuh");
  CHECK(yotta::next_quoted_include(text, found.end).end == 0);
}
