"""The parts of an explanation: prompts for subsets, Shapley values, Integrated Gradients, alignment."""
