class Hospes < Formula
  desc "Host between AI applications and MCP servers"
  homepage "{{ homepage }}"
  version "{{ version }}"
  license any_of: ["MIT", "Apache-2.0"]
{% for system in ["macos", "linux"] if archives | selectattr("system", "equalto", system) | list %}
  on_{{ system }} do
    {%- for archive in archives if archive.system == system %}
    on_{{ archive.brew_arch }} do
      url "{{ archive.url }}"
      sha256 "{{ archive.sha256 }}"
    end
    {%- endfor %}
  end
{% endfor %}
  def install
    bin.install "hospes"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/hospes.bash" => "hospes"
    zsh_completion.install "completions/_hospes"
    fish_completion.install "completions/hospes.fish"
  end

  service do
    run [opt_bin/"hospes", "--quiet", "up"]
    keep_alive successful_exit: false
    environment_variables PATH: std_service_path_env
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/hospes --version")
    assert_match "UTC", shell_output("#{bin}/hospes call time now")
  end
end
