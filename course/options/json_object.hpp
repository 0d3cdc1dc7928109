// A JSON object with its entries in the order in which they were set: nlohmann/json behind a few
// functions, so that it is compiled once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace yotta {

class JsonObject {
 public:
  JsonObject();
  ~JsonObject();
  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(JsonObject&&) noexcept;

  void set(const std::string& name, double value);
  void set(const std::string& name, int64_t value);
  void set(const std::string& name, const std::string& value);
  void set(const std::string& name, const std::vector<double>& values);
  void set(const std::string& name, const std::vector<int64_t>& values);
  void set(const std::string& name, const JsonObject& value);
  void set(const std::string& name, const std::vector<JsonObject>& values);

  // The file's text, indented by two spaces.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta
