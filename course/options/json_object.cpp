#include "course/options/json_object.hpp"

#include <nlohmann/json.hpp>

namespace yotta {

struct JsonObject::State {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

JsonObject::JsonObject() : state_(std::make_unique<State>()) {}
JsonObject::~JsonObject() = default;
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(JsonObject&&) noexcept = default;

void JsonObject::set(const std::string& name, double value) { state_->json[name] = value; }
void JsonObject::set(const std::string& name, int64_t value) { state_->json[name] = value; }
void JsonObject::set(const std::string& name, const std::string& value) {
  state_->json[name] = value;
}
void JsonObject::set(const std::string& name, const std::vector<double>& values) {
  state_->json[name] = values;
}
void JsonObject::set(const std::string& name, const std::vector<int64_t>& values) {
  state_->json[name] = values;
}
void JsonObject::set(const std::string& name, const JsonObject& value) {
  state_->json[name] = value.state_->json;
}
void JsonObject::set(const std::string& name, const std::vector<JsonObject>& values) {
  nlohmann::ordered_json& list = state_->json[name] = nlohmann::ordered_json::array();
  for (const JsonObject& value : values) list.push_back(value.state_->json);
}

std::string JsonObject::text() const { return state_->json.dump(2) + "\n"; }

}  // namespace yotta
