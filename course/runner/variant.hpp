// Variants: from one key, of a term or of a student, come other numbers of the cases and other
// sentences of the statement.
//
//     numbers      seeds, sizes, numbers of ranks: cases ask exercise::variant() for them, and
//                  right solutions stay right
//     sentences    "choices" of exercise.json: the ring goes the other way, rank r's chunk is
//                  chunk r + 1; a solution for another key is wrong
//
// Who grades by a key hands out the statement of that key: `./yotta handout --variant KEY` writes
// its sentences into the tree, and exercises/told.json names them, without the key.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/exercise.hpp"

namespace runner {

using Told = std::map<std::string, int>;  // "10.way" -> 2: its second sentence

// A class may have a key for each student: "autumn {student}" is "autumn ann" for ann.
std::string key_of(std::string key, const std::string& student);

// Empty key: none.
Told told_by(const Exercise& exercise, const std::string& key);
// The sentences.
Lines sentences(const Exercise& exercise, const Told& told);

// For the programs of cases that this one starts from now on. Without a key, what
// exercises/told.json of the tree says. Returns the sentences that hold.
Lines use_variant(const Exercise& exercise, const std::string& key,
                  const std::string& tree = YOTTA_SOURCE_DIR);

// In a tree for students: exercises/told.json, the statement and the top of the starter.
void write_told(const std::vector<Exercise>& exercises, const std::string& key,
                const std::string& tree);

}  // namespace runner
