// Which sockets of a process listen, as the kernel says.
//
//     CHECK(listening_sockets_of(process).empty());
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace yotta_test {

// The numbers (inodes) of the sockets that a process holds. Empty as well if it has ended.
inline std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> numbers;
  std::error_code ended;
  for (const auto& each :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", ended)) {
    const std::string target = std::filesystem::read_symlink(each.path(), ended);
    if (target.starts_with("socket:[")) numbers.insert(target.substr(8, target.size() - 9));
  }
  return numbers;
}

// The numbers of all sockets of this machine that listen.
inline std::set<std::string> listening_sockets() {
  struct Table {
    const char* file;
    std::string listens;  // in column 3
    size_t number;        // the column of the inode
  };
  std::set<std::string> numbers;
  for (const Table& table : {Table{"/proc/net/tcp", "0A", 9}, Table{"/proc/net/tcp6", "0A", 9},
                             Table{"/proc/net/unix", "00010000", 6}}) {
    std::ifstream file(table.file);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      const std::vector<std::string> row{std::istream_iterator<std::string>(words), {}};
      if (row.size() > table.number && row[3] == table.listens) numbers.insert(row[table.number]);
    }
  }
  return numbers;
}

inline std::set<std::string> listening_sockets_of(pid_t process) {
  std::set<std::string> both;
  const std::set<std::string> all = listening_sockets();
  for (const std::string& number : sockets_of(process))
    if (all.contains(number)) both.insert(number);
  return both;
}

}  // namespace yotta_test
