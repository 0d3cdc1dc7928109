// Completion of ./yotta's command line by bash and zsh: course/completion/. Both files are written
// from one list of verbs, which is the command line's own, by `build/release/course/runner
// completion`; the suite proves them fresh.
#pragma once

#include <string>
#include <vector>

namespace runner {

struct VerbWords {
  std::string name, about;
  std::vector<std::string> options;  // "--json"
};

// These verbs, and those that ./yotta hands to other programs. Their options are the programs' own,
// asked for as they are needed.
std::vector<VerbWords> all_verbs(std::vector<VerbWords> of_the_runner);

std::string bash_completion(const std::vector<VerbWords>& verbs);
std::string zsh_completion(const std::vector<VerbWords>& verbs);

// Writes both into a folder. Returns an exit status.
int write_completion(const std::vector<VerbWords>& verbs, const std::string& folder);

}  // namespace runner
