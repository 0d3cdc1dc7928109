// The theme's icons say nothing to those who hear the page: what they stand in has a name.
for (const icon of document.querySelectorAll("svg:not([role])")) icon.setAttribute("aria-hidden", "true");

// Predictions: kept in this browser, and shown beside the lesson's figure once there is an answer.
for (const form of document.querySelectorAll("form.predict")) {
  const input = form.querySelector("input"), key = "yotta/" + form.dataset.key;
  const show = () => { form.querySelector("p").hidden = false; };
  const kept = localStorage.getItem(key);
  if (kept) { input.value = kept; show(); }
  form.addEventListener("submit", event => {
    event.preventDefault();
    if (!input.value.trim()) return input.focus();
    localStorage.setItem(key, input.value);
    show();
  });
}
