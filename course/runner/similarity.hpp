// `./yotta similarity DIR`: which submissions of a class share code.
//
//     a file's lines that the starter lacks ──► tokens: comments, blanks, empty statements and
//                                               variables that nobody uses gone, each name the same
//                                           ──► a hash of every `gram` tokens in a row
//                                           ──► fingerprints: of every `window` hashes in a row the
//                                           least
//
// Two copies that share gram + window - 1 tokens in a row share a fingerprint, wherever it stands
// and however names were changed. What the starter holds does not count. Like solutions of a short
// task are alike without being copied: pairs have ranks, and stand beside the class's median; a
// person reads the lines that are shared, and decides.
// Reference: Schleimer, Wilkerson & Aiken, "Winnowing: local algorithms for document
// fingerprinting", SIGMOD 2003.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace runner {

constexpr size_t gram = 12, window = 6;  // tokens; hashes

struct Fingerprints {
  std::map<uint64_t, std::set<int>> lines;  // of each fingerprint, where it stands
  std::map<int, std::string> text;          // the student's lines
};
// Of what a student has written: the lines that the starter does not have, wherever they stand,
// marks or no marks.
Fingerprints fingerprints_of(const std::string& text, const std::string& starter);

// All fingerprints that the text of a starter could have: shared by everybody, and nobody's copy.
std::set<uint64_t> prints_of_starter(const std::string& starter);

struct SharedLines {
  double share = 0;  // of the fingerprints of whichever has fewer
  std::set<int> first, second;
};
SharedLines compare(const Fingerprints& first, const Fingerprints& second,
                    const std::set<uint64_t>& starter);

struct SimilarityOptions {
  std::string folder;                  // the class's
  std::string against;                 // another class's, such as last year's; empty: none
  std::vector<std::string> exercises;  // numbers or names; empty: all that somebody handed in
  double threshold = 0.8;
  std::string html, json;
};
// Exit status: 0, or 2 if the options are wrong.
int similarity(const SimilarityOptions& options);

}  // namespace runner
