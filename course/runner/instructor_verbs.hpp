// The verbs of whoever teaches with Yotta, on the command line: grade, handout, collect,
// autograder, similarity.
#pragma once

namespace CLI {
class App;
}

namespace runner {

// `result` receives the exit status of the verb that is run.
void add_instructor_verbs(CLI::App& app, int& result);

}  // namespace runner
