// A peer in PyTorch: a Python process beside the benchmark, asked for one measurement at a time, so
// that both sides' measurements lie close together in one run.
//
//     TorchPeer torch("import torch\ndef measure(what): ...");   measure returns seconds
//     if (torch.found()) torch.seconds("forward");
//
// The Python is that of the variable YOTTA_TORCH_PYTHON, or python3. Without PyTorch, found() is
// false and about() says so.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "yotta/core/error.hpp"

namespace yotta::bench {

class TorchPeer {
 public:
  // `script` imports torch and defines measure(words); both sides talk by lines.
  explicit TorchPeer(const std::string& script) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) fail(Where::current(), "no pipe for the peer");
    const char* const named = std::getenv("YOTTA_TORCH_PYTHON");
    const char* const python = named == nullptr ? "python3" : named;
    const std::string whole =
        script +
        "\nimport sys\nprint('PyTorch', torch.__version__, flush=True)\n"
        "for line in sys.stdin:\n"
        "    try: answer = measure(line.strip())\n"
        "    except Exception as error:\n"
        "        said = ' '.join(str(error).split()).encode('ascii', 'replace')\n"
        "        answer = 'error: ' + said.decode()[:200]\n"
        "    print(answer, flush=True)\n";
    process_ = fork();
    if (process_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (const int end : {to[0], to[1], from[0], from[1]}) close(end);
      if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
      execlp(python, python, "-c", whole.c_str(), static_cast<char*>(nullptr));
      _exit(1);
    }
    close(to[0]);
    close(from[1]);
    to_ = fdopen(to[1], "w");
    from_ = fdopen(from[0], "r");
    about_ = line();
    found_ = about_.starts_with("PyTorch ");
    if (!found_)
      about_ =
          "PyTorch not found: only yotta is measured (YOTTA_TORCH_PYTHON names a Python that has "
          "it)";
  }
  ~TorchPeer() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(process_, nullptr, 0);
  }
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  bool found() const { return found_; }
  const std::string& about() const { return about_; }

  // What measure(words) returned. Errors: what it raised.
  double seconds(const std::string& words) {
    std::fprintf(to_, "%s\n", words.c_str());
    std::fflush(to_);
    const std::string answer = line();
    if (answer.empty()) fail(Where::current(), "PyTorch has ended when asked for '{}'", words);
    if (answer.starts_with("error: "))
      fail(Where::current(), "PyTorch, asked for '{}': {}", words, answer);
    return std::stod(answer);
  }

 private:
  std::string line() {
    char text[256] = "";
    if (std::fgets(text, sizeof text, from_) == nullptr) return "";
    std::string all = text;
    while (!all.empty() && all.back() == '\n') all.pop_back();
    return all;
  }

  pid_t process_;
  std::FILE *to_, *from_;
  std::string about_;
  bool found_;
};

}  // namespace yotta::bench
