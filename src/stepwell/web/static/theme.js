// @ts-check
// Light or dark: the system's choice until the reader makes another one, which a cookie keeps for the server.

export function startTheme() {
  const button = document.getElementById("theme");
  button?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    document.cookie = `stepwell_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  });
}
