"""What an operator runs by hand: inspect, replay, retire, counts of a pilot."""
