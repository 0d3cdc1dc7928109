// Sends a record that is told beforehand: the lines of the file PROGRAM.says, sealed with the key
// that comes by the channel. In messages "\n" is the end of a line.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "course/cases/record.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int channel = std::atoi(argv[1]);
  std::string key(record::key_letters, '0');
  if (read(channel, key.data(), key.size()) != static_cast<ssize_t>(key.size())) return 2;
  record::Digests digests(key);
  std::ifstream lines(std::string(*argv) + ".says");
  for (std::string what, name, message; std::getline(lines, what, '\t');) {
    std::getline(lines, name, '\t');
    std::getline(lines, message);
    for (size_t at = 0; (at = message.find("\\n", at)) != std::string::npos;)
      message.replace(at, 2, "\n");
    const std::string text = record::sealed({what, name, message}, digests);
    if (write(channel, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return 2;
  }
}
