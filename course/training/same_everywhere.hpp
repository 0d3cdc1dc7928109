// Ranks that are processes are started one by one, each with options, files and a program of its
// own. What must be the same on all of them is compared when they start.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/model/named_tensor.hpp"

namespace yotta {

// What is to be the same, and what it is here: {"--lr", "0.001"}. No line breaks.
using Facts = std::vector<std::pair<std::string, std::string>>;

// Throws on all ranks, with the first fact that differs and both its values, unless all have the
// same. All ranks call. Cost: one number from each rank; if those differ, all facts.
void expect_same_everywhere(const Facts& mine, Communicator& world, Where where = Where::current());

// Short for what is too long to be sent: 16 digits that other bytes do not have.
std::string digest(std::string_view bytes);
std::string digest(const std::vector<NamedTensor>& tensors);
// Of the program that this process runs.
std::string program_digest();
// The same for processes of one machine: which file it is, and when it was made.
std::string program_stamp();

}  // namespace yotta
