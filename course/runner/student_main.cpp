// The runner that students build: ./yotta hands learn, list, check, hint, reset, lesson, predict
// and bench over to it.
#include "runner/student_commands.hpp"

int main(int argc, char** argv) { return runner::run_command_line(argc, argv); }
