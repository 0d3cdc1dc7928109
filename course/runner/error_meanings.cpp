#include "runner/error_meanings.hpp"

#include <regex>
#include <vector>

namespace runner {
namespace {

// g++'s quotation marks as clang's.
std::string with_plain_quotes(const std::string& text) {
  static const std::regex marks("\xe2\x80\x98|\xe2\x80\x99");
  return std::regex_replace(text, marks, "'");
}

struct Meaning {
  std::regex message;
  const char* words;  // $1 is what the first bracket of `message` holds
};

Meaning meaning(const char* message, const char* words) { return {std::regex(message), words}; }

// The first that fits counts: what says more comes first.
std::vector<Meaning> of_const() {
  return {
      meaning(R"(span<const [^']*'? to (?:non-scalar type )?'[^']*span<(?!const))",
              "A view of const elements cannot become one through which they may be written. Take "
              "span<const T> as the parameter, or copy the elements."),
      meaning(R"(\bConstData'? to (?:non-scalar type )?'[^']*\bData')",
              "A ConstData may be read, and a Data may be written too: the one cannot become the "
              "other. Say ConstData here, or copy_data into an array of your own."),
      meaning(R"('const [^']*' to (?:non-scalar type )?'[^']*\bData')",
              "A Data is written to, and this is const: it may only be read. Are two arguments in "
              "the wrong order?"),
      meaning(
          R"(as 'this' argument discards|function is not marked const|but method is not marked const)",
          "The object is const here, and the function that you call may change it. Mark that "
          "function const, or take the object without const."),
      meaning(
          R"(discards qualifiers|lose const qualifier|invalid conversion from 'const|drops 'const')",
          "Something const is given to whom may write to it. Take it as const there too, or "
          "make a copy that may be written."),
      meaning(R"(read-only|const-qualified|within const member function)",
              "It is const: it may be read, not written. Write to a variable of your own, or is "
              "another one meant?"),
      meaning(R"(uninitialized 'const|default initialization of an object of const)",
              "A const variable needs its value where it is declared: const int n = ...;"),
      meaning(R"(non-const lvalue reference|expects an lvalue)",
              "A parameter T& needs a variable that it may write to. A number, an expression or "
              "what a function returns is none: give it a name first."),
  };
}

std::vector<Meaning> of_numbers() {
  return {
      meaning(R"(different signedness|different signs)",
              "A signed number is compared with an unsigned one: -1 counts as a huge number there. "
              "Make both int or both size_t, or use std::ssize(x)."),
      meaning(R"(narrowing|cannot be narrowed)",
              "Braces { } refuse a number that may not fit into the smaller type. Say that you "
              "mean it: static_cast<int>(x)."),
      meaning(
          R"(to binary 'operator%'|invalid operands to binary expression \('(?:double|float)' and)",
          "The operator % is for whole numbers only. For double there is std::fmod."),
      meaning(R"(call to non-'constexpr' function|non-constexpr function '[^']+' cannot be used)",
              "A constexpr function may run while the program is compiled, so it may call only "
              "constexpr functions. Mark the other one constexpr too, and give it its body above."),
      meaning(R"(of non-literal type)",
              "A constexpr function has no variables of types that free something in the end, such "
              "as std::vector or std::unique_ptr. Do without, or use a std::array."),
      meaning(R"(not a constant expression)",
              "This must be known when the program is compiled, as the N of array<T, N> is. A "
              "parameter is not: use std::vector, or a constexpr constant."),
  };
}

std::vector<Meaning> of_names() {
  return {
      meaning(R"(('[^']+') was not declared in this scope; did you mean ('[^']+'))",
              "There is no name $1 here. Is $2 meant?"),
      meaning(R"(undeclared identifier ('[^']+'); did you mean ('[^']+'))",
              "There is no name $1 here. Is $2 meant?"),
      meaning(R"(no template named|(?:'vector'|'span'|'string'|'array') was not declared)",
              "A name of the standard library needs std:: before it, and its #include."),
      meaning(R"(('[^']+') was not declared in this scope|undeclared identifier ('[^']+'))",
              "There is no name $1$2 here: is it misspelt, declared further down, or declared "
              "inside other braces?"),
      meaning(R"(is not a member of|no member named '[^']*' in namespace)",
              "That namespace has no such name: is it misspelt, or is an #include missing?"),
      meaning(R"(has no member named ('[^']+')|no member named ('[^']+') in)",
              "That type has no member $1$2. Look at how the type is declared; is it misspelt?"),
      meaning(R"(is private within|is a private member|is protected within|is a protected member)",
              "That member is private: only the class itself may name it. Call one of its public "
              "functions."),
      meaning(R"(redeclaration of|redefinition of)",
              "This name is there already. A variable is declared once (write x = 2; without its "
              "type to change it), and a function has one body."),
      meaning(R"(is not captured|cannot be implicitly captured)",
              "A lambda sees the variables around it only if it captures them: [&] by reference, "
              "[=] as copies."),
      meaning(R"(has incomplete type|variable has incomplete type)",
              "This type is only announced here. Include the header that declares it whole."),
      meaning(R"(No such file or directory|file not found)",
              "There is no such file to include. Is its name right, and its folder?"),
  };
}

std::vector<Meaning> of_punctuation() {
  return {
      meaning(R"(missing terminating)", "A text in quotation marks does not end on its line."),
      meaning(R"('else' without a previous|expected expression[^]*\belse\b)",
              "This else has no if before it: are braces { } missing around two lines?"),
      meaning(
          R"(expected '\}'|at end of input)",
          "A brace { is never closed. Count them from the top of the part that you wrote last."),
      meaning(R"(extraneous closing brace|expected declaration before '\}')",
              "There is one brace } too many, or one { too few above it."),
      meaning(R"(expected '[()\]]')", "A bracket is missing here, or there is one too many."),
      meaning(R"(expected [^\n]*';')",
              "A semicolon is missing, here or at the end of the line above; or an operator or a "
              "bracket is."),
      meaning(R"(function.definition is not allowed here)",
              "A function begins here inside of another one: a brace { above it is never closed."),
      meaning(R"(stray '|non-ASCII|unexpected character|extended character)",
              "This character is no part of C++. Was it copied from a page or a PDF?"),
      meaning(R"(expected (?:primary-|unqualified-id|expression))",
              "Here the compiler does not find what it expects. Look just before this place, and "
              "at the line above."),
  };
}

std::vector<Meaning> of_calls() {
  return {
      meaning(
          R"(too few arguments|too many arguments|requires (?:at least |at most )?(?:single |\d+ )?argument|expects (?:at least |at most )?\d+ arguments?)",
          "The function takes another number of arguments. Its declaration, which the notes "
          "name, says which."),
      meaning(R"(deduced conflicting types)",
              "Two arguments must be of one type here, and are of two, such as int and double. "
              "Convert one of them: double(x)."),
      meaning(R"(is ambiguous)",
              "Several functions fit equally well. Convert the argument to the type that one of "
              "them takes."),
      meaning(R"(base operand of '->'|is not a pointer; did you mean to use '\.')",
              "This is no pointer: its members come after a point, x.member."),
      meaning(R"(which is of pointer type|is a pointer; did you mean to use '->')",
              "This is a pointer: its members come after an arrow, p->member."),
      meaning(R"(cannot be used as a function|is not a function or function pointer)",
              "This is no function, and brackets ( ) call one. Is an operator missing before the "
              "bracket, or has a variable a function's name?"),
      meaning(
          R"(for array subscript|subscripted value is not|no match for 'operator\[\]'|does not provide a subscript)",
          "This has no elements, so [ ] cannot choose one. Is another variable meant?"),
      meaning(R"(no match for 'operator|invalid operands)",
              "This operator is not defined for these types. Which types are they, and is one of "
              "them a view or a pointer whose elements you mean?"),
      meaning(R"(use of deleted function|call to deleted)",
              "Objects of this type cannot be copied. Take it by reference (T&), or move it with "
              "std::move."),
  };
}

std::vector<Meaning> of_types() {
  return {
      meaning(
          R"(return-statement with a value, in function returning 'void'|should not return a value)",
          "The function is void: it returns nothing. Write return; alone."),
      meaning(R"(return-statement with no value|should return a value)",
              "The function promises a value: return needs one."),
      meaning(R"(inconsistent deduction for auto|'auto' in return type deduced as)",
              "The function says auto and returns two types. Let all its returns have one."),
      meaning(R"(assignment used as truth value|result of an assignment as a condition)",
              "One = writes to the variable, and the condition is what was written. To compare, "
              "write ==."),
      meaning(R"(has no initializer|requires an initializer|deduced type 'auto')",
              "auto takes its type from a value, so it needs one: auto x = ...;"),
      meaning(
          R"(no return statement in|does not return a value|reaches end of non-void|control reaches)",
          "The function promises a value and can end without a return. Then its value is "
          "anything at all."),
      meaning(
          R"(reference to local variable|address of local variable|reference to stack memory|address of stack memory|dangling)",
          "This refers to a variable that is gone when the function ends. Return a copy, or "
          "let the caller own it."),
      meaning(R"(used uninitialized|is uninitialized when used)",
              "This variable is read before anything was written to it. Give it a value where it "
              "is declared."),
      meaning(R"(expression is not assignable|lvalue required as left operand)",
              "What stands to the left of = must be a variable. Is == meant?"),
      meaning(
          R"((?:convert|conversion from) '(?:const )?(?:u?int|long|float|double|size_t|bool)[^\n]*to '(?:yotta::)?(?:Const)?Data')",
          "Ranks send arrays, and this is a single number. Put it into a vector of one element: "
          "std::vector<int64_t> total = {x};"),
      meaning(
          R"(could not convert|cannot convert|to non-scalar type|no viable conversion|no known conversion|invalid conversion|cannot initialize)",
          "A value of one type is given where another is needed, and there is no way from the "
          "one to the other. The message names both."),
      meaning(R"(no matching function)",
              "There is a function of this name, but none that takes these arguments. Compare "
              "them, one by one, with its declaration, which the notes name."),
      meaning(R"(template argument deduction|substitution failed|constraints not satisfied)",
              "A template was called with types that it is not made for. What matters is the line "
              "of yours that asks for it: which types do its arguments have?"),
  };
}

const std::vector<Meaning>& meanings() {
  static const std::vector<Meaning> all = [] {
    std::vector<Meaning> list;
    for (const auto& part :
         {of_const(), of_numbers(), of_names(), of_punctuation(), of_calls(), of_types()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

}  // namespace

std::string meaning_of(const std::string& message) {
  const std::string text = with_plain_quotes(message);
  for (const Meaning& one : meanings()) {
    std::smatch match;
    if (std::regex_search(text, match, one.message)) return match.format(one.words);
  }
  return "";
}

}  // namespace runner
