"""Random and hostile input for everything public: answered rightly, or refused in our own words."""
