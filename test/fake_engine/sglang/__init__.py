"""In SGLang's place for tests of what surrounds a server: starts in a moment, fails as FAKE_FAULT says."""
